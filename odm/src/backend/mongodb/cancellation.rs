//! Cancellation of reads on the server.
//!
//! A call of the driver runs to its end, even if its caller is gone. So each read outside a transaction has a separate session.
//! The session costs no round trip: the driver takes sessions from a pool, as it does for every command. A read must end when its
//! future is dropped, or when the server does not answer within the time limit. Then [`SessionKiller`] asks the server to end the
//! operations of the session.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use ::mongodb::{
    Client, ClientSession,
    bson::{Document, doc},
    options::{ClientOptions, SelectionCriteria, ServerAddress},
};
use tokio::sync::OnceCell;

use super::error;
use crate::{
    Result,
    error::read_timed_out,
    session::task::{self, Task},
};

/// The extra time to wait for the server's own timeout error, before the client cancels the read.
const SERVER_TIMEOUT_GRACE: Duration = Duration::from_secs(1);

/// Runs a read in a separate session, and returns the result with the session. The read starts when this future is awaited.
pub(super) async fn run_in_session<T, F>(
    client: &Client,
    killer: &Arc<SessionKiller>,
    max_time: Option<Duration>,
    read: impl FnOnce(ClientSession) -> F + Send + 'static,
) -> Result<(T, ClientSession)>
where
    T: Send + 'static,
    F: Future<Output = (Result<T>, ClientSession)> + Send + 'static,
{
    let session = Arc::new(OnceLock::new());
    let (client, id) = (client.clone(), Arc::clone(&session));
    let work = async move {
        let session = client.start_session().causal_consistency(false).await;
        let session = session.map_err(error::from_driver)?;
        // `set` cannot fail: this task sets the id once.
        let _ = id.set(session.id().clone());
        Ok(read(session).await)
    };
    let killer = Arc::clone(killer);
    let call = DriverCall::spawn_call(work, Some(SessionKill { killer, session }));
    let (read, session) = call.finish_within(max_time).await??;
    Ok((read?, session))
}

/// A call of the driver in a separate task. Dropping this value cancels the call on the server.
pub(super) struct DriverCall<T: Send + 'static> {
    /// The task, or `None` after its end.
    task: Option<Task<T>>,
    /// The cancellation on the server. `None` in a transaction: the abort of the transaction ends the call.
    kill: Option<SessionKill>,
}

/// The cancellation of the operations in a session.
#[derive(Clone)]
pub(super) struct SessionKill {
    pub(super) killer: Arc<SessionKiller>,
    /// The id of the session, as soon as the session exists.
    pub(super) session: Arc<OnceLock<Document>>,
}

impl<T: Send + 'static> DriverCall<T> {
    pub(super) fn spawn_call(
        work: impl Future<Output = T> + Send + 'static,
        kill: Option<SessionKill>,
    ) -> Self {
        Self {
            task: Some(task::spawn(work)),
            kill,
        }
    }

    /// Waits for the call, but only slightly longer than its time limit.
    pub(super) async fn finish_within(mut self, max_time: Option<Duration>) -> Result<T> {
        self.wait_within(max_time).await
    }

    /// Waits like [`finish_within`](Self::finish_within), and can be called again unless the time limit was exceeded.
    pub(super) async fn wait_within(&mut self, max_time: Option<Duration>) -> Result<T> {
        match max_time {
            None => self.await,
            Some(max_time) => {
                let outcome =
                    task::timeout(max_time.saturating_add(SERVER_TIMEOUT_GRACE), self).await;
                outcome.unwrap_or_else(|_| Err(read_timed_out()))
            }
        }
    }
}

impl<T: Send + 'static> Future for DriverCall<T> {
    type Output = Result<T>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let Some(task) = &mut self.task else {
            return Poll::Pending;
        };
        let joined = ready!(Pin::new(task).poll(context));
        self.task = None;
        Poll::Ready(joined)
    }
}

impl<T: Send + 'static> Drop for DriverCall<T> {
    fn drop(&mut self) {
        if let (Some(task), Some(kill)) = (self.task.take(), self.kill.take())
            && !task.is_finished()
        {
            task::spawn(kill.until_ended(task));
        }
    }
}

impl SessionKill {
    /// Repeats the kill until the task ends: a command that is still on its way to the server escapes the first kill.
    ///
    /// The task's session is kept until no kill is running. Otherwise a kill would hit the next user of the pooled session.
    pub(super) async fn until_ended<T: Send>(
        self,
        mut ending: impl Future<Output = T> + Send + Unpin,
    ) {
        let mut pause = FIRST_KILL_PAUSE;
        loop {
            if let Some(session) = self.session.get()
                && let Err(failure) = self.killer.kill_operations(session).await
            {
                tracing::debug!(target: "odm", %failure, "cannot cancel an abandoned read on the server; the cancellation is retried");
            }
            if let Ok(ended) = task::timeout(pause, &mut ending).await {
                return drop(ended);
            }
            pause = (pause * 2).min(MAX_KILL_PAUSE);
        }
    }
}

/// The pause between two kills. Each pause is twice as long as the one before, up to the maximum.
const FIRST_KILL_PAUSE: Duration = Duration::from_millis(20);
const MAX_KILL_PAUSE: Duration = Duration::from_secs(10);

/// Ends the operations of sessions, over separate connections: the operations may occupy every connection of the client.
pub(super) struct SessionKiller {
    options: ClientOptions,
    /// Whether the client connects to one server alone.
    is_direct: bool,
    client: OnceCell<Client>,
    /// Whether the client belongs to the application, which closes it.
    is_shared: bool,
}

/// The time to wait for a server that can execute the kill.
const KILL_SERVER_SELECTION_TIMEOUT: Duration = Duration::from_secs(5);

impl SessionKiller {
    pub(super) fn new(mut options: ClientOptions) -> Self {
        options.selection_criteria = None;
        let is_direct = options.direct_connection == Some(true);
        options.sdam_event_handler = None;
        options.min_pool_size = None;
        options.max_pool_size = Some(2);
        options.server_selection_timeout = Some(KILL_SERVER_SELECTION_TIMEOUT);
        Self {
            options,
            is_direct,
            client: OnceCell::new(),
            is_shared: false,
        }
    }

    /// Creates a killer that uses the connections of a client of the application.
    pub(super) fn of_client(client: Client) -> Self {
        Self {
            is_direct: false,
            options: ClientOptions::default(),
            client: OnceCell::from(client),
            is_shared: true,
        }
    }

    /// Closes the connections.
    pub(super) async fn close_connections(&self) {
        if let Some(client) = self.client.get().filter(|_| !self.is_shared) {
            client.clone().shutdown().immediate(true).await;
        }
    }

    /// Ends the operations of a session, on every member that may run a read: each query can choose the member.
    async fn kill_operations(&self, session: &Document) -> ::mongodb::error::Result<()> {
        let client = async || Client::with_options(self.options.clone());
        let client = self.client.get_or_try_init(client).await?;
        let admin = client.database("admin");
        let kill = doc! { "killSessions": [session.clone()] };
        let hello = admin.run_command(doc! { "hello": 1 }).await?;
        let hosts = ["hosts", "passives"].into_iter();
        let hosts = hosts
            .filter_map(|kind| hello.get_array(kind).ok())
            .flatten();
        let hosts: Vec<_> = hosts.filter_map(|host| host.as_str()).collect();
        if self.is_direct || hosts.len() <= 1 {
            // A router of a cluster forwards the kill to all shards.
            return admin.run_command(kill).await.map(drop);
        }
        for address in hosts {
            let address = ServerAddress::parse(address)?;
            let is_member = move |server: &::mongodb::ServerInfo<'_>| *server.address() == address;
            let killed = admin
                .run_command(kill.clone())
                .selection_criteria(SelectionCriteria::Predicate(Arc::new(is_member)));
            if let Err(failure) = killed.await {
                tracing::debug!(target: "odm", %failure, "cannot cancel an abandoned read on a member of the replica set");
            }
        }
        Ok(())
    }
}
