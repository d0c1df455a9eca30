//! A connection: messages in, replies out.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use odm_engine::Interrupt;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, split,
};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::dispatch::{self, Execution};
use crate::message::{HEADER_BYTES, Header, Message, MessageError, ReplyFormat, encode_reply};
use crate::scram::Conversation;
use crate::server::ServerState;

/// How long a client may pause within a message, and how long the client may leave a reply unread.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take to set up TLS.
#[cfg(feature = "tls")]
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A message up to this length waits for no memory.
const SMALL_MESSAGE_BYTES: usize = 16 << 10;

/// The maximum length of a message before the authentication.
const MAX_BYTES_BEFORE_AUTHENTICATION: usize = 64 << 10;

/// How many bytes of a message are read at once. The memory of a message grows with the bytes that have arrived.
const READ_BYTES: usize = 64 << 10;

/// The state of a connection between two messages.
pub(crate) struct ConnectionState {
    pub(crate) id: i64,
    /// The address to which the client has connected.
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    /// Whether the client has authenticated, or the server needs no authentication.
    pub(crate) is_authenticated: bool,
    pub(crate) authentication: Option<Authentication>,
}

/// An authentication in progress.
pub(crate) struct Authentication {
    /// `None` after the proof, if the client wants one more exchange.
    pub(crate) conversation: Option<Conversation>,
    pub(crate) skips_empty_exchange: bool,
}

/// Serves a connection until the client closes the connection or sends bytes that are no message.
pub(crate) async fn serve(stream: TcpStream, server: Arc<ServerState>) {
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else {
        return;
    };
    // A reply is one write, and waits for nothing.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let state = ConnectionState::new(local, peer, &server);
    #[cfg(feature = "tls")]
    if let Some(identity) = &server.tls {
        let accepted = timeout(HANDSHAKE_TIMEOUT, identity.acceptor().accept(stream)).await;
        if let Ok(Ok(stream)) = accepted {
            end_with_connection(serve_stream(stream, state, &server).await);
        }
        return;
    }
    end_with_connection(serve_stream(stream, state, &server).await);
}

/// Serves a client on a stream without addresses.
pub(crate) async fn serve_in_memory(
    stream: impl AsyncRead + AsyncWrite,
    server: &Arc<ServerState>,
) -> io::Result<()> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    serve_stream(
        stream,
        ConnectionState::new(address, address, server),
        server,
    )
    .await
}

impl ConnectionState {
    fn new(local: SocketAddr, peer: SocketAddr, server: &ServerState) -> ConnectionState {
        ConnectionState {
            id: server.total_connections.fetch_add(1, Ordering::Relaxed) + 1,
            local,
            peer,
            is_authenticated: server.credentials.is_none(),
            authentication: None,
        }
    }
}

/// Drops the error of a connection: the client is gone, so the error has no receiver.
fn end_with_connection(served: io::Result<()>) {
    drop(served);
}

async fn serve_stream<S: AsyncRead + AsyncWrite>(
    stream: S,
    mut state: ConnectionState,
    server: &Arc<ServerState>,
) -> io::Result<()> {
    let (input, mut output) = split(stream);
    let mut input = BufReader::new(input);
    loop {
        let Some(received) = read_message(&mut input, &state, server).await? else {
            return Ok(());
        };
        let (message, request_id, memory) = match received {
            Ok(received) => received,
            Err((request_id, error)) => {
                let reply = error.to_command_error().to_reply(&server.namespaces);
                let format = ReplyFormat::Message { checksum: false };
                let id = server.next_reply_id();
                if let Some(bytes) = encode_reply(format, request_id, id, &reply) {
                    write(&mut output, &bytes).await?;
                }
                // The start of the next message is unknown.
                return timeout(PROGRESS_TIMEOUT, output.shutdown()).await?;
            }
        };
        let format = message.format;
        let execution = run(message, &mut input, &mut state, server).await;
        drop(memory);
        let Some(Execution { reply, permit }) = execution else {
            return Ok(());
        };
        let bytes = encode_reply(format, request_id, server.next_reply_id(), &reply);
        drop(reply);
        if let Some(bytes) = bytes {
            // The permit of the operation ends after the reply has its memory. Otherwise many large replies could wait here.
            let _memory = reserve(&server.reply_memory, bytes.len()).await;
            drop(permit);
            write(&mut output, &bytes).await?;
        }
    }
}

/// Runs a command. If the client closes the connection meanwhile, the command is cancelled, and changes no data. Returns `None` then.
async fn run<R: AsyncRead + Unpin>(
    message: Message,
    input: &mut BufReader<R>,
    state: &mut ConnectionState,
    server: &Arc<ServerState>,
) -> Option<Execution> {
    let is_awaited = message.format != ReplyFormat::Nothing;
    let interrupt = Interrupt::new();
    let mut cancellation = CancelOnDrop(Some(interrupt.clone()));
    let execution = dispatch::execute(message, state, server, interrupt);
    let mut execution = std::pin::pin!(execution);
    let outcome = tokio::select! {
        biased;
        execution = &mut execution => Some(execution),
        // A client may close the connection after a write that needs no reply.
        read = input.fill_buf(), if is_awaited => match read {
            // The next message has arrived, and waits for this command.
            Ok([_, ..]) => Some(execution.await),
            Ok([]) | Err(_) => None,
        },
    };
    if outcome.is_some() {
        // An open cursor keeps the interrupt of its command.
        cancellation.0 = None;
    }
    outcome
}

/// Cancels the operation of a client that has gone, or of a server that stops.
struct CancelOnDrop(Option<Interrupt>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(interrupt) = &self.0 {
            interrupt.cancel();
        }
    }
}

/// A message with the id of the request and with its memory, or the error of a message.
type Received = Result<(Message, i32, Option<OwnedSemaphorePermit>), (i32, MessageError)>;

/// Reads a message. Returns `None` at the end of the connection.
async fn read_message<R: AsyncRead + Unpin>(
    input: &mut BufReader<R>,
    state: &ConnectionState,
    server: &Arc<ServerState>,
) -> io::Result<Option<Received>> {
    // A client may wait between two messages for any time.
    if input.fill_buf().await?.is_empty() {
        return Ok(None);
    }
    let mut header_bytes = [0; HEADER_BYTES];
    timeout(PROGRESS_TIMEOUT, input.read_exact(&mut header_bytes)).await??;
    let header = match Header::parse(header_bytes) {
        Ok(header) => header,
        Err(error) => return Ok(Some(Err((0, error)))),
    };
    if !state.is_authenticated && header.length > MAX_BYTES_BEFORE_AUTHENTICATION {
        return Ok(Some(Err((
            header.request_id,
            MessageError::before_authentication(),
        ))));
    }
    let memory = reserve(&server.request_memory, header.length).await;
    let length = header.length - HEADER_BYTES;
    let mut payload = Vec::new();
    while payload.len() < length {
        let start = payload.len();
        payload.resize(length.min(start + READ_BYTES), 0);
        let target = payload.get_mut(start..).unwrap_or_default();
        match timeout(PROGRESS_TIMEOUT, input.read(target)).await?? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => payload.truncate(start + read),
        }
    }
    let message = Message::parse(header_bytes, &payload);
    Ok(Some(match message {
        Ok(message) => Ok((message, header.request_id, memory)),
        Err(error) => Err((header.request_id, error)),
    }))
}

/// Waits until the memory for a message is free. Small messages need no permit: the number of connections is bounded.
async fn reserve(memory: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    if bytes <= SMALL_MESSAGE_BYTES {
        return None;
    }
    let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
    Arc::clone(memory).acquire_many_owned(kib).await.ok()
}

/// Writes the bytes of a message. A client that does not read loses the connection.
async fn write(output: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = timeout(PROGRESS_TIMEOUT, output.write(rest)).await??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rest = rest.get(written..).unwrap_or_default();
    }
    timeout(PROGRESS_TIMEOUT, output.flush()).await?
}
