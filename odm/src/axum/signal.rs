//! The signals that end a process.

use std::{future::pending, pin::pin};

use futures_util::future::select;

/// Completes when the process shall end: after SIGTERM, which container managers send, or after ctrl-c.
///
/// Pass the future to axum's `with_graceful_shutdown`: the service then answers the requests in progress and returns. Close the
/// database after that.
///
/// ```
/// # async fn example<S: odm::Schema>(db: odm::Database<S>) -> odm::Result<()> {
/// // axum::serve(listener, routes(db.clone())).with_graceful_shutdown(odm::axum::shutdown_signal()).await?;
/// odm::axum::shutdown_signal().await;
/// db.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// From the first poll on, the signals no longer end the process by themselves. If the process cannot receive a signal, the future
/// logs the error (target `odm::http`) and leaves the signal to the operating system.
pub async fn shutdown_signal() {
    let (interrupt, terminate) = (pin!(interrupt()), pin!(terminate()));
    select(interrupt, terminate).await;
}

/// Completes after ctrl-c.
async fn interrupt() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::error!(target: "odm::http", %error, "the process cannot receive ctrl-c");
        pending().await
    }
}

/// Completes after SIGTERM.
#[cfg(unix)]
async fn terminate() {
    use tokio::signal::unix::{SignalKind, signal};

    match signal(SignalKind::terminate()) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(error) => {
            tracing::error!(target: "odm::http", %error, "the process cannot receive SIGTERM");
            pending().await
        }
    }
}

#[cfg(not(unix))]
async fn terminate() {
    pending().await
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::{self, Command};

    use super::*;

    #[tokio::test]
    async fn sigterm_completes_the_future() {
        let mut signal = pin!(shutdown_signal());
        // The first poll registers the handler. Without the handler, SIGTERM would end this process.
        assert!(futures_util::poll!(&mut signal).is_pending());
        let pid = process::id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.unwrap().success());
        signal.await;
    }
}
