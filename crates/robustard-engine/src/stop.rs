//! A flag by which work is asked to stop.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag, raised from any thread, that asks work to stop with what there is.
#[derive(Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    look: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Stop {
    /// The same flag, for work that runs on the only thread that could raise it: `look`, which may raise it, is called whenever the work
    /// asks whether to stop.
    #[must_use]
    pub fn with_look(self, look: impl Fn() + Send + Sync + 'static) -> Self {
        Self { look: Some(Arc::new(look)), ..self }
    }

    /// Asks to stop.
    pub fn raise(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether to stop.
    pub fn is_raised(&self) -> bool {
        if let Some(look) = &self.look {
            look();
        }
        self.flag.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.flag).finish()
    }
}
