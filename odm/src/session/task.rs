//! Tasks, timers and blocking work on the caller's Tokio runtime, or on the library's runtime if the caller has none.
//!
//! Any executor can poll the futures of this library. `tokio::spawn` and Tokio's timers panic outside of a Tokio runtime, so the
//! crate uses only this module for tasks and timers. `clippy.toml` rejects the direct calls.

#![expect(
    clippy::disallowed_methods,
    reason = "this module wraps the disallowed methods"
)]

use std::{
    any::Any,
    cell::Cell,
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use futures_core::future::BoxFuture;
use tokio::{
    runtime::{Builder, Handle, Runtime, RuntimeFlavor},
    task::{JoinError, JoinHandle},
    time::{Sleep, Timeout},
};

use crate::{Error, ErrorKind, Result};

/// Runs the work in a task of its own, which starts now. The task runs to its end, even if the returned future is dropped.
pub(crate) fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send {
    let task = spawn(work);
    async move { task.await.flatten() }
}

/// Runs the work to its end, even if the returned future is dropped after its first poll.
///
/// The work begins on the current task, and a write in memory ends there. Work that has to [block](move_to_blocking_thread) moves to a
/// thread for blocking work, as a whole: each further thread switch costs as much as a short write. Work that has to wait for
/// anything else moves to a task of its own, and so does all work on a runtime with one thread.
pub(crate) async fn run_inline_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let mut unfinished = UnfinishedWork(Some(Box::pin(work)));
    match poll_fn(|context| unfinished.poll_begin(context)).await {
        Begun::Finished(outcome) => outcome,
        Begun::Waits(work) => run_to_end(work).await,
        Begun::Blocks(work) => run_on_blocking_thread(work).await,
    }
}

/// Asks for a thread that may block. Returns `true` on such a thread.
///
/// Returns `false` outside of [`run_inline_to_end`], and on a runtime with one thread: the caller then starts a task for the blocking
/// work.
#[cfg_attr(
    not(feature = "engine"),
    expect(dead_code, reason = "only the engine blocks")
)]
pub(crate) async fn move_to_blocking_thread() -> bool {
    let mut has_asked = false;
    poll_fn(|context| match BLOCKING_WORK.get() {
        BlockingWork::Here => Poll::Ready(true),
        BlockingWork::InTask => Poll::Ready(false),
        // A second poll before the move: a synchronous function waits for this future, and the move would wait for the function.
        _ if has_asked => Poll::Ready(false),
        BlockingWork::MovesWithWrite | BlockingWork::MoveRequested => {
            has_asked = true;
            BLOCKING_WORK.set(BlockingWork::MoveRequested);
            // The futures between this future and the write may poll only futures that were woken.
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

thread_local! {
    static BLOCKING_WORK: Cell<BlockingWork> = const { Cell::new(BlockingWork::InTask) };
}

/// Where the current poll runs blocking work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockingWork {
    /// In a task for blocking work.
    InTask,
    /// On a thread for blocking work, to which the polled write moves.
    MovesWithWrite,
    /// As `MovesWithWrite`, and a part of the write waits for the move.
    MoveRequested,
    /// On the current thread.
    Here,
}

/// Sets the place of blocking work until dropped.
struct BlockingScope(BlockingWork);

impl BlockingScope {
    fn enter(place: BlockingWork) -> Self {
        Self(BLOCKING_WORK.replace(place))
    }
}

impl Drop for BlockingScope {
    fn drop(&mut self) {
        BLOCKING_WORK.set(self.0);
    }
}

/// The state of work after its first poll.
enum Begun<T> {
    Finished(Result<T>),
    /// The work waits for the wake-up of its task.
    Waits(BoxFuture<'static, Result<T>>),
    /// The work has to block.
    Blocks(BoxFuture<'static, Result<T>>),
}

/// Work that has begun inside of other work, and that moves together with the outer work. Continues in a task if dropped.
struct UnfinishedWork<T: Send + 'static>(Option<BoxFuture<'static, Result<T>>>);

impl<T: Send + 'static> UnfinishedWork<T> {
    fn poll_begin(&mut self, context: &mut Context<'_>) -> Poll<Begun<T>> {
        // Taken during the poll, so that the drop after a panic does not poll the work again.
        let mut work = self.0.take().expect("the work has not ended");
        let outer = BLOCKING_WORK.get();
        // On a runtime with one thread, the task of the work is no thread switch, and hooks may use values of the thread.
        let is_outermost = outer == BlockingWork::InTask && !is_only_thread();
        let scope = is_outermost.then(|| BlockingScope::enter(BlockingWork::MovesWithWrite));
        let polled = work.as_mut().poll(context);
        let is_move_requested = BLOCKING_WORK.get() == BlockingWork::MoveRequested;
        drop(scope);
        Poll::Ready(match polled {
            Poll::Ready(outcome) => Begun::Finished(outcome),
            Poll::Pending if !is_move_requested => Begun::Waits(work),
            Poll::Pending if is_outermost => Begun::Blocks(work),
            Poll::Pending => {
                self.0 = Some(work);
                return Poll::Pending;
            }
        })
    }
}

impl<T: Send + 'static> Drop for UnfinishedWork<T> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            drop(spawn(work));
        }
    }
}

/// Polls the work on a thread for blocking work. If the work then waits, it continues in a task.
async fn run_on_blocking_thread<T: Send + 'static>(
    mut work: BoxFuture<'static, Result<T>>,
) -> Result<T> {
    let polled = spawn_blocking(move || {
        let _scope = BlockingScope::enter(BlockingWork::Here);
        // The task polls the work again, so this poll needs no wake-up.
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Ok(outcome),
            Poll::Pending => Err(spawn(work)),
        }
    });
    match polled.await? {
        Ok(outcome) => outcome,
        Err(task) => task.await.flatten(),
    }
}

/// Starts the work in a task of its own.
pub(crate) fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Task<T> {
    let work: BoxFuture<'static, Outcome> =
        Box::pin(async move { Box::new(work.await) as Outcome });
    Task::new(current_runtime().spawn(work))
}

/// Starts work that blocks the thread, on a thread for blocking work.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Task<T> {
    let work: Box<dyn FnOnce() -> Outcome + Send> = Box::new(|| Box::new(work()));
    Task::new(current_runtime().spawn_blocking(work))
}

/// A running task. The task continues if this value is dropped.
///
/// The runtime sees a single type of task for all kinds of work. Otherwise the compiler would generate Tokio's code for a task
/// again for each kind of work: a fifth of the functions of this crate.
pub(crate) struct Task<T> {
    handle: JoinHandle<Outcome>,
    outcome: PhantomData<fn() -> T>,
}

/// The result of a task, of the type of the task.
type Outcome = Box<dyn Any + Send>;

impl<T> Task<T> {
    fn new(handle: JoinHandle<Outcome>) -> Self {
        Self {
            handle,
            outcome: PhantomData,
        }
    }

    /// Stops the task at its next await.
    pub(crate) fn abort(&self) {
        self.handle.abort();
    }

    #[cfg(feature = "mongodb")]
    pub(crate) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// Waits for the result. The result is lost only if the runtime shuts down first, or if the task panics.
impl<T: 'static> Future for Task<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let outcome = ready!(Pin::new(&mut self.handle).poll(context));
        Poll::Ready(outcome.map_err(join_failure).map(|outcome| {
            let outcome = outcome.downcast::<T>();
            *outcome.expect("a task returns a value of the type of the task")
        }))
    }
}

/// Whether the current runtime has no thread for tasks besides this thread.
pub(crate) fn is_only_thread() -> bool {
    let runtime = Handle::try_current();
    runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
}

/// Lets other tasks run, if the current task has done much work since its last wait.
#[cfg(feature = "engine")]
pub(crate) async fn consume_budget() {
    tokio::task::coop::consume_budget().await;
}

/// Waits for a duration.
pub(crate) fn sleep(duration: Duration) -> Sleep {
    // A timer belongs to the runtime that is current at its creation.
    let runtime = current_runtime();
    let _context = runtime.enter();
    tokio::time::sleep(duration)
}

/// Waits for the future, at most for a duration.
pub(crate) fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    let runtime = current_runtime();
    let _context = runtime.enter();
    tokio::time::timeout(duration, future)
}

fn current_runtime() -> Handle {
    Handle::try_current().unwrap_or_else(|_| FALLBACK_RUNTIME.handle().clone())
}

/// The runtime for callers without a runtime. Starts with the first such caller, and runs until the process ends.
static FALLBACK_RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("odm")
        .enable_all()
        .build();
    runtime.expect(
        "there is no Tokio runtime, and the system cannot start a thread for the library's own runtime",
    )
});

fn join_failure(error: JoinError) -> Error {
    let (kind, message) = if error.is_cancelled() {
        (
            ErrorKind::Connection,
            "the Tokio runtime shut down during the operation, and the outcome of a write is unknown",
        )
    } else {
        (ErrorKind::Backend, "the backend panicked")
    };
    Error::new(kind, message).with_source(error)
}

#[cfg(all(test, feature = "engine"))]
mod tests {
    use std::{
        sync::mpsc,
        thread::{self, ThreadId},
    };

    use tokio::sync::oneshot;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        let mut future = Some(future);
        poll_fn(|context| Poll::Ready(future.take().unwrap().poll(context))).await
    }

    /// Work that blocks twice, the second time inside of other work, and that waits for `signal` in between.
    async fn block_twice(signal: oneshot::Receiver<()>) -> Result<[ThreadId; 2]> {
        assert!(move_to_blocking_thread().await);
        let first = thread::current().id();
        signal.await.unwrap();
        let second = run_inline_to_end(async {
            assert!(move_to_blocking_thread().await);
            Ok(thread::current().id())
        });
        Ok([first, second.await?])
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn work_that_blocks_leaves_the_thread_of_the_caller() {
        let (send, signal) = oneshot::channel();
        let caller = thread::current().id();
        let work = run_inline_to_end(block_twice(signal));
        let (threads, ()) = tokio::join!(work, async { send.send(()).unwrap() });
        assert!(!threads.unwrap().contains(&caller));
        assert!(!move_to_blocking_thread().await);
    }

    #[tokio::test]
    async fn work_on_the_only_thread_stays() {
        let work = run_inline_to_end(async { Ok(move_to_blocking_thread().await) });
        assert!(!work.await.unwrap());
    }

    /// Both works begin and end on the same thread for blocking work.
    #[tokio::test(flavor = "multi_thread")]
    async fn inner_work_moves_with_the_outer_work() {
        let (send, signal) = oneshot::channel();
        send.send(()).unwrap();
        let [first, second] = run_inline_to_end(block_twice(signal)).await.unwrap();
        assert_eq!(first, second);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn dropped_work_that_blocks_ends() {
        let (send, ended) = mpsc::channel();
        let mut work = Box::pin(run_inline_to_end(async move {
            assert!(move_to_blocking_thread().await);
            send.send(()).unwrap();
            Ok(())
        }));
        assert!(poll_once(work.as_mut()).await.is_pending());
        drop(work);
        ended.recv_timeout(LONG).unwrap();
    }

    /// The outer work drops the inner work before the move.
    #[tokio::test(flavor = "multi_thread")]
    async fn dropped_inner_work_ends() {
        let (send, ended) = mpsc::channel();
        let outer = run_inline_to_end(async move {
            let mut inner = Box::pin(run_inline_to_end(async move {
                move_to_blocking_thread().await;
                send.send(()).unwrap();
                Ok(())
            }));
            assert!(poll_once(inner.as_mut()).await.is_pending());
            Ok(())
        });
        outer.await.unwrap();
        ended.recv_timeout(LONG).unwrap();
    }

    /// A combinator polls only the futures that were woken.
    #[tokio::test(flavor = "multi_thread")]
    async fn every_part_of_the_work_ends() {
        let parts = run_inline_to_end(async {
            let parts = (0..100).map(|_| move_to_blocking_thread());
            Ok(futures_util::future::join_all(parts).await)
        });
        assert_eq!(parts.await.unwrap().len(), 100);
    }

    /// A hook may wait for work without `await`.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_synchronous_wait_inside_of_work_ends() {
        let outer = run_inline_to_end(async {
            let mut inner = Box::pin(run_inline_to_end(async {
                assert!(!move_to_blocking_thread().await);
                spawn_blocking(|| ()).await
            }));
            let mut context = Context::from_waker(Waker::noop());
            loop {
                if let Poll::Ready(result) = inner.as_mut().poll(&mut context) {
                    return result;
                }
                thread::yield_now();
            }
        });
        outer.await.unwrap();
    }
}
