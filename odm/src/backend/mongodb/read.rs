//! Cancellation of reads on the server.
//!
//! A call of the driver runs to its end, also when its caller is gone. So each read outside of a transaction has a separate
//! session. That costs no round trip: the driver takes sessions from a pool, as it does for every command. When the future of a
//! read is dropped, or the server does not answer within the time limit, [`Killer`] asks the server to end the operations of
//! the session.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use ::mongodb::{
    Client, ClientSession,
    bson::{Document, doc},
    options::{ClientOptions, ReadPreference, SelectionCriteria, ServerAddress},
};
use tokio::{sync::OnceCell, task::JoinHandle};

use super::error;
use crate::{Result, error::timed_out, task};

/// How much later than its time limit a read is given up: before that, the answer of the server is waited for.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a read in a separate session, and returns the result with the session. The read starts when this is awaited.
pub(super) async fn read<T, F>(
    client: &Client,
    killer: &Arc<Killer>,
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
        // It is set once.
        let _ = id.set(session.id().clone());
        Ok(read(session).await)
    };
    let killer = Arc::clone(killer);
    let running = Running::start(work, Some(Kill { killer, session }));
    let (read, session) = running.within(max_time).await??;
    Ok((read?, session))
}

/// A call of the driver in a separate task. Dropping this cancels the call on the server.
pub(super) struct Running<T: Send + 'static> {
    /// None once it has ended.
    task: Option<JoinHandle<T>>,
    /// The cancellation on the server. None in a transaction, whose abort ends the call.
    kill: Option<Kill>,
}

/// How the server ends what runs in a session.
#[derive(Clone)]
pub(super) struct Kill {
    pub(super) killer: Arc<Killer>,
    /// The id of the session, as soon as there is one.
    pub(super) session: Arc<OnceLock<Document>>,
}

impl<T: Send + 'static> Running<T> {
    pub(super) fn start(
        work: impl Future<Output = T> + Send + 'static,
        kill: Option<Kill>,
    ) -> Self {
        Self {
            task: Some(task::spawn(work)),
            kill,
        }
    }

    /// Waits for it, but not much longer than its time limit.
    pub(super) async fn within(mut self, max_time: Option<Duration>) -> Result<T> {
        self.wait(max_time).await
    }

    /// Waits like [`within`](Self::within), and can be called again unless the time limit was exceeded.
    pub(super) async fn wait(&mut self, max_time: Option<Duration>) -> Result<T> {
        match max_time {
            None => self.await,
            Some(max_time) => {
                let done = task::timeout(max_time.saturating_add(GRACE), self).await;
                done.unwrap_or_else(|_| Err(timed_out()))
            }
        }
    }
}

impl<T: Send + 'static> Future for Running<T> {
    type Output = Result<T>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let Some(task) = &mut self.task else {
            return Poll::Pending;
        };
        let joined = ready!(Pin::new(task).poll(context));
        self.task = None;
        Poll::Ready(task::outcome(joined))
    }
}

impl<T: Send + 'static> Drop for Running<T> {
    fn drop(&mut self) {
        if let (Some(task), Some(kill)) = (self.task.take(), self.kill.take())
            && !task.is_finished()
        {
            task::spawn(kill.until_ended(task));
        }
    }
}

impl Kill {
    /// Repeats the kill until the task ends: a command that is still on its way to the server escapes the first kill.
    ///
    /// The task's session is kept until no kill is under way, as its next user would be killed too.
    pub(super) async fn until_ended<T: Send>(
        self,
        mut ending: impl Future<Output = T> + Send + Unpin,
    ) {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(session) = self.session.get()
                && let Err(failure) = self.killer.kill(session).await
            {
                tracing::debug!(target: "odm", %failure, "a read that nobody waits for goes on, as it cannot be killed");
            }
            if let Ok(ended) = task::timeout(pause, &mut ending).await {
                return drop(ended);
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

/// How long to wait until what was killed is killed again; each time is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Ends the operations of sessions, over separate connections: the operations may occupy every connection of the client.
pub(super) struct Killer {
    options: ClientOptions,
    /// Whether reads may go to other members than the primary.
    is_spread: bool,
    client: OnceCell<Client>,
}

/// How long to look for a server to tell.
const PATIENCE: Duration = Duration::from_secs(5);

impl Killer {
    pub(super) fn new(mut options: ClientOptions) -> Self {
        let criteria = options.selection_criteria.take();
        let is_primary = |criteria: &SelectionCriteria| {
            matches!(
                criteria,
                SelectionCriteria::ReadPreference(ReadPreference::Primary)
            )
        };
        let is_spread = !criteria.as_ref().is_none_or(is_primary);
        let is_direct = options.direct_connection == Some(true);
        options.sdam_event_handler = None;
        options.min_pool_size = None;
        options.max_pool_size = Some(2);
        options.server_selection_timeout = Some(PATIENCE);
        Self {
            options,
            is_spread: is_spread && !is_direct,
            client: OnceCell::new(),
        }
    }

    /// Closes the connections.
    pub(super) async fn close(&self) {
        if let Some(client) = self.client.get() {
            client.clone().shutdown().immediate(true).await;
        }
    }

    /// Has the server end what runs in a session, wherever that is.
    async fn kill(&self, session: &Document) -> ::mongodb::error::Result<()> {
        let client = async || Client::with_options(self.options.clone());
        let client = self.client.get_or_try_init(client).await?;
        let admin = client.database("admin");
        let kill = doc! { "killSessions": [session.clone()] };
        if !self.is_spread {
            return admin.run_command(kill).await.map(drop);
        }
        let hello = admin.run_command(doc! { "hello": 1 }).await?;
        let members = ["hosts", "passives"].into_iter();
        let members = members
            .filter_map(|kind| hello.get_array(kind).ok())
            .flatten();
        let members: Vec<_> = members.filter_map(|host| host.as_str()).collect();
        if members.is_empty() {
            // The router of a cluster tells all shards.
            return admin.run_command(kill).await.map(drop);
        }
        for member in members {
            let member = ServerAddress::parse(member)?;
            let is_member = move |server: &::mongodb::ServerInfo<'_>| *server.address() == member;
            let told = admin
                .run_command(kill.clone())
                .selection_criteria(SelectionCriteria::Predicate(Arc::new(is_member)));
            if let Err(failure) = told.await {
                tracing::debug!(target: "odm", %failure, "a member cannot be told to end a read");
            }
        }
        Ok(())
    }
}
