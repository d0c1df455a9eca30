//! A running `mongod` that ends with the test process.

use std::{
    fs,
    io::{self, Write},
    net::{Ipv4Addr, TcpListener},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::binary;

/// Runs the server until standard input ends or says `keep`. Without `keep`, the script removes the files.
///
/// Standard input is a pipe from the test process. The pipe closes when the test process ends for any reason, also after
/// `kill -9`, so the script needs no polling. The script ignores signals from a terminal or a supervisor, because only the tests
/// handle signals.
const SUPERVISOR: &str = r#"
trap '' INT TERM HUP
files=$1
shift
"$@" </dev/null >/dev/null 2>"$files/stderr" &
server=$!
read -r what
kill -9 $server
wait
[ "$what" = keep ] || rm -rf "$files"
"#;

/// The maximum time of a start, with a margin for machines under load.
const MAX_START_TIME: Duration = Duration::from_secs(60);

/// The maximum number of attempts to start, because a different process may take the port first.
const MAX_START_ATTEMPTS: usize = 5;

/// The id of the log message that says that the server accepts connections, and of the message that says that the server ends.
const LISTENING_MESSAGE: &str = "\"id\":23016,";
const EXIT_MESSAGE: &str = "\"id\":23138,";

#[derive(Debug)]
pub(super) struct Process {
    program: PathBuf,
    replica_set: Option<&'static str>,
    port: u16,
    files: PathBuf,
    /// `None` between a kill and a restart.
    supervisor: Option<Child>,
}

impl Process {
    /// Starts a server with empty files on a free port.
    pub(super) fn start(program: &Path, replica_set: Option<&'static str>) -> Result<Self, String> {
        let home = binary::target_dir().join("mongod");
        let mut failure = String::new();
        for _ in 0..MAX_START_ATTEMPTS {
            fs::create_dir_all(&home).map_err(error_text)?;
            let files = tempfile::Builder::new()
                .prefix("data-")
                .tempdir_in(&home)
                .map_err(error_text)?;
            let mut process = Self {
                program: program.to_owned(),
                replica_set,
                port: free_port().map_err(error_text)?,
                // The supervisor removes the directory.
                files: files.keep(),
                supervisor: None,
            };
            match process.restart() {
                Ok(()) => return Ok(process),
                Err(reason) => failure = reason,
            }
        }
        Err(failure)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the server runs, which is false after a kill.
    pub(super) fn is_running(&self) -> bool {
        self.supervisor.is_some()
    }

    /// Kills the server immediately and keeps the files.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        let mut supervisor = self.supervisor.take().ok_or("the server is not running")?;
        if let Some(input) = &mut supervisor.stdin {
            writeln!(input, "keep").map_err(error_text)?;
        }
        supervisor.wait().map(|_| ()).map_err(error_text)
    }

    /// Starts the server with the existing files, and waits until the server accepts connections.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        let log = self.files.join("log");
        // Without the removal, `wait_until_listening` would read the log of an earlier run.
        if let Err(error) = fs::remove_file(&log)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error_text(error));
        }
        let mut command = Command::new("sh");
        command.args(["-c", SUPERVISOR, "sh"]).arg(&self.files);
        command.arg(&self.program).arg("--dbpath").arg(&self.files);
        command
            .arg("--logpath")
            .arg(&log)
            .args(["--port", &self.port.to_string()]);
        command.args(["--bind_ip", "127.0.0.1", "--nounixsocket"]);
        command.args(["--wiredTigerCacheSizeGB", "0.25"]);
        command.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
        // Test commands allow tests to configure fail points.
        command.args(["--setParameter", "enableTestCommands=1"]);
        if let Some(name) = self.replica_set {
            command.args(["--replSet", name, "--oplogSize", "100"]);
        }
        // The supervisor needs a process group of the supervisor alone: then a kill of the tests' group does not stop the
        // cleanup.
        let supervisor = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0);
        self.supervisor = Some(supervisor.spawn().map_err(error_text)?);
        wait_until_listening(&log, &self.files.join("stderr"))
    }
}

impl Drop for Process {
    /// Lets the supervisor end the server and remove the files, and waits for the end.
    fn drop(&mut self) {
        match self.supervisor.take() {
            Some(mut supervisor) => {
                drop(supervisor.stdin.take());
                let _ended = supervisor.wait();
            }
            None => {
                let _removed = fs::remove_dir_all(&self.files);
            }
        }
    }
}

fn wait_until_listening(log: &Path, stderr: &Path) -> Result<(), String> {
    let deadline = Instant::now() + MAX_START_TIME;
    loop {
        let log_text = fs::read_to_string(log).unwrap_or_default();
        if log_text.contains(LISTENING_MESSAGE) {
            return Ok(());
        }
        if log_text.contains(EXIT_MESSAGE) || Instant::now() > deadline {
            let complaint = fs::read_to_string(stderr).unwrap_or_default();
            let last: Vec<_> = log_text.lines().rev().take(5).collect();
            return Err(format!(
                "mongod does not start: {complaint}\n{}",
                last.join("\n")
            ));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

fn error_text(error: io::Error) -> String {
    error.to_string()
}
