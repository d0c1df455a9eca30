//! A running `mongod`, which ends when this process does.

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

/// Runs the server until its standard input ends or says `keep`; only in the former case the files are removed.
///
/// Its standard input is a pipe from the test process. That is closed when the process ends in whatever way, also by
/// `kill -9`, and needs no polling. The signals that a terminal or a supervisor sends to the tests are left to them.
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

/// The most that a start may take; it is for machines under load.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a start is tried, as another process may take the port first.
const ATTEMPTS: usize = 5;

/// The numbers of messages in the server's log: it accepts connections; it ends.
const ACCEPTS: &str = "\"id\":23016,";
const ENDS: &str = "\"id\":23138,";

#[derive(Debug)]
pub(super) struct Process {
    program: PathBuf,
    replica_set: Option<&'static str>,
    port: u16,
    files: PathBuf,
    /// None between a kill and a restart.
    supervisor: Option<Child>,
}

impl Process {
    /// Starts a server with empty files on a free port.
    pub(super) fn start(program: &Path, replica_set: Option<&'static str>) -> Result<Self, String> {
        let home = binary::target_dir().join("mongod");
        let mut failure = String::new();
        for _ in 0..ATTEMPTS {
            fs::create_dir_all(&home).map_err(text)?;
            let files = tempfile::Builder::new()
                .prefix("data-")
                .tempdir_in(&home)
                .map_err(text)?;
            let mut process = Self {
                program: program.to_owned(),
                replica_set,
                port: free_port().map_err(text)?,
                // The supervisor removes it.
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

    /// Whether it was not killed.
    pub(super) fn is_running(&self) -> bool {
        self.supervisor.is_some()
    }

    /// Ends the server at once and leaves its files.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        let mut supervisor = self.supervisor.take().ok_or("the server is not running")?;
        if let Some(input) = &mut supervisor.stdin {
            writeln!(input, "keep").map_err(text)?;
        }
        supervisor.wait().map(|_| ()).map_err(text)
    }

    /// Starts the server on the files that are there, and waits until it accepts connections.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        let log = self.files.join("log");
        // The log of a run before this one would answer for it.
        if let Err(error) = fs::remove_file(&log)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(text(error));
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
        // For failures on demand.
        command.args(["--setParameter", "enableTestCommands=1"]);
        if let Some(name) = self.replica_set {
            command.args(["--replSet", name, "--oplogSize", "100"]);
        }
        // In a process group of its own, so that it outlives a kill of the group of the tests and can clean up.
        let supervisor = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0);
        self.supervisor = Some(supervisor.spawn().map_err(text)?);
        wait_for(&log, &self.files.join("stderr"))
    }
}

impl Drop for Process {
    /// Lets the supervisor end the server and remove the files, and waits for it.
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

fn wait_for(log: &Path, stderr: &Path) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = fs::read_to_string(log).unwrap_or_default();
        if said.contains(ACCEPTS) {
            return Ok(());
        }
        if said.contains(ENDS) || Instant::now() > deadline {
            let complaint = fs::read_to_string(stderr).unwrap_or_default();
            let last: Vec<_> = said.lines().rev().take(5).collect();
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

fn text(error: io::Error) -> String {
    error.to_string()
}
