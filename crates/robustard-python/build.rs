//! Extension modules find Python's symbols in the process that loads them; the linker of macOS has to be told.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
