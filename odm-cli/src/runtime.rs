use tokio::runtime::{Builder, Runtime};

use crate::failure::{Failure, Result};

/// Returns the runtime of a command that works on databases of any kind.
pub(crate) fn runtime() -> Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::problem(format!("cannot start: {error}")))
}
