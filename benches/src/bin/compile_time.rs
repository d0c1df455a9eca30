//! What models cost the compiler: a crate of many with `odm`, beside the same with toasty and with SeaORM.
//!
//! Each crate has the models that are asked for, with fifteen fields each, in a module of its own; each refers to the one before, which lists
//! what refers to it, in chains of ten (toasty's do not compile that are much longer); with `odm` it has a copy of a field of that one too, which the others do not know. Dependencies are compiled before.
//! Then the three are checked in turns, as a whole, and again after a field of one model has got another name: what a person waits for.
//!
//! `cargo run --release -p odm-benches --bin compile_time`

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use clap::Parser;

/// Times of `cargo check`, and lines of expanded code.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many models each crate has.
    #[arg(long, default_value_t = 100)]
    models: usize,
    /// How often each is checked.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where the crates are written and built.
    #[arg(long, default_value = "target/compile-time")]
    folder: PathBuf,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How the same models are written.
#[derive(Clone, Copy)]
struct Mapper {
    name: &'static str,
    dependencies: &'static str,
    /// A model by its number, with the name of one field.
    model: fn(number: usize, models: usize, field: &str) -> String,
    /// What is beside the models, by how many there are.
    whole: fn(usize) -> String,
}

const MAPPERS: [Mapper; 3] = [
    Mapper {
        name: "odm",
        dependencies: "odm = { path = \"ODM\", features = [\"engine\"] }\nserde = { version = \"1\", features = [\"derive\"] }\n",
        model: odm_model,
        whole: odm_schema,
    },
    Mapper {
        name: "toasty",
        dependencies: "toasty = { version = \"=0.11.0\", features = [\"sqlite\"] }\n",
        model: toasty_model,
        whole: |_| String::new(),
    },
    Mapper {
        name: "sea-orm",
        dependencies: "sea-orm = { version = \"=2.0.4\", features = [\"macros\", \"runtime-tokio\", \"sqlx-sqlite\"] }\n",
        model: sea_model,
        whole: |_| String::new(),
    },
];

/// How many models refer to one another.
const CHAIN: usize = 10;

/// The model before one, if it refers to any.
fn before(number: usize) -> Option<usize> {
    (!number.is_multiple_of(CHAIN)).then(|| number - 1)
}

/// The model behind one, if that refers to it.
fn behind(number: usize, models: usize) -> Option<usize> {
    let next = number + 1;
    (next < models && !next.is_multiple_of(CHAIN)).then_some(next)
}

/// The fields that are plain values, but for the one that gets another name.
const FIELDS: [(&str, &str); 9] = [
    ("name", "String"),
    ("title", "String"),
    ("note", "Option<String>"),
    ("votes", "i64"),
    ("views", "i64"),
    ("price", "f64"),
    ("active", "bool"),
    ("amount", "i32"),
    ("code", "String"),
];

fn values(field: &str) -> String {
    let mut text = String::new();
    for (name, ty) in FIELDS
        .into_iter()
        .chain([("rank", "i64"), (field, "String")])
    {
        let _ = writeln!(text, "    pub {name}: {ty},");
    }
    text
}

fn odm_model(number: usize, models: usize, field: &str) -> String {
    let mut text = format!(
        "use odm::prelude::*;\n\n#[derive(Debug, Clone, Serialize, Deserialize, Document)]\n#[document(collection = \"m{number}\")]\n\
         pub struct M{number} {{\n    #[serde(rename = \"_id\")]\n    pub id: i64,\n{}",
        values(field)
    );
    if let Some(before) = before(number) {
        let _ = write!(
            text,
            "    #[reference(inverse = nexts)]\n    pub prev: Ref<super::m{before}::M{before}>,\n    \
             #[denormalize(from = prev.name)]\n    pub prev_name: String,\n"
        );
    }
    if let Some(next) = behind(number, models) {
        let _ = write!(
            text,
            "    #[reference(inverse_of = prev, max = 100)]\n    pub nexts: Vec<Ref<super::m{next}::M{next}>>,\n"
        );
    }
    text + "}\n"
}

fn odm_schema(models: usize) -> String {
    let all: Vec<_> = (0..models).map(|n| format!("m{n}::M{n}")).collect();
    format!(
        "\n#[derive(odm::Schema)]\n#[schema(models({}))]\npub struct All;\n",
        all.join(", ")
    )
}

fn toasty_model(number: usize, models: usize, field: &str) -> String {
    let mut text = format!(
        "#[derive(Debug, toasty::Model)]\npub struct M{number} {{\n    #[key]\n    pub id: i64,\n{}",
        values(field)
    );
    if let Some(before) = before(number) {
        let _ = write!(
            text,
            "    #[index]\n    pub prev_id: i64,\n    #[belongs_to(key = prev_id, references = id)]\n    \
             pub prev: toasty::Deferred<super::m{before}::M{before}>,\n    pub prev_name: String,\n"
        );
    }
    if let Some(next) = behind(number, models) {
        let _ = write!(
            text,
            "    #[has_many(pair = prev)]\n    pub nexts: toasty::Deferred<Vec<super::m{next}::M{next}>>,\n"
        );
    }
    text + "}\n"
}

fn sea_model(number: usize, models: usize, field: &str) -> String {
    let mut text = format!(
        "use sea_orm::entity::prelude::*;\n\n#[sea_orm::model]\n#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]\n\
         #[sea_orm(table_name = \"m{number}\")]\npub struct Model {{\n    #[sea_orm(primary_key)]\n    pub id: i64,\n{}",
        values(field)
    );
    if let Some(before) = before(number) {
        let _ = write!(
            text,
            "    pub prev_id: i64,\n    #[sea_orm(belongs_to, from = \"prev_id\", to = \"id\")]\n    \
             pub prev: BelongsTo<super::m{before}::Entity>,\n    pub prev_name: String,\n"
        );
    }
    if let Some(next) = behind(number, models) {
        let _ = write!(
            text,
            "    #[sea_orm(has_many)]\n    pub nexts: HasMany<super::m{next}::Entity>,\n"
        );
    }
    text + "}\n\nimpl ActiveModelBehavior for ActiveModel {}\n"
}

/// A crate on disk.
struct Crate {
    mapper: Mapper,
    folder: PathBuf,
    models: usize,
}

impl Crate {
    fn write(mapper: Mapper, all: &Path, models: usize) -> Result<Self> {
        let folder = all.join(mapper.name);
        fs::create_dir_all(folder.join("src"))?;
        let odm = Path::new(env!("CARGO_MANIFEST_DIR")).join("../odm");
        let odm = odm.canonicalize()?;
        let dependencies = mapper
            .dependencies
            .replace("ODM", &odm.display().to_string());
        let manifest = format!(
            "[package]\nname = \"models-{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\n[workspace]\n",
            mapper.name
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        let mut lib = String::new();
        for number in 0..models {
            let _ = writeln!(lib, "pub mod m{number};");
        }
        fs::write(folder.join("src/lib.rs"), lib + &(mapper.whole)(models))?;
        let own = Self {
            mapper,
            folder,
            models,
        };
        for number in 0..models {
            own.write_model(number, "tag")?;
        }
        Ok(own)
    }

    fn write_model(&self, number: usize, field: &str) -> Result<()> {
        let text = (self.mapper.model)(number, self.models, field);
        fs::write(self.folder.join(format!("src/m{number}.rs")), text)?;
        Ok(())
    }

    fn cargo(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let done = Command::new("cargo")
            .args(arguments)
            .current_dir(&self.folder)
            .env_remove("CARGO_TARGET_DIR")
            // Lines are counted by the compiler that builds everything else.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_INCREMENTAL", "1")
            .output()?;
        match done.status.success() {
            true => Ok(done.stdout),
            false => {
                let said = String::from_utf8_lossy(&done.stderr);
                let first: Vec<_> = said.lines().take(30).collect();
                Err(first.join("\n").into())
            }
        }
    }

    fn check(&self) -> Result<Duration> {
        let start = Instant::now();
        self.cargo(&["check", "--quiet"])?;
        Ok(start.elapsed())
    }

    /// All of its own, and nothing else.
    fn check_whole(&self) -> Result<Duration> {
        self.cargo(&[
            "clean",
            "--quiet",
            "-p",
            &format!("models-{}", self.mapper.name),
        ])?;
        self.check()
    }

    fn check_again(&self, round: usize) -> Result<Duration> {
        let field = if round.is_multiple_of(2) {
            "label"
        } else {
            "tag"
        };
        self.write_model(self.models / 2, field)?;
        self.check()
    }

    fn expanded_lines(&self) -> Result<usize> {
        let expanded = self.cargo(&[
            "rustc",
            "--quiet",
            "--profile",
            "check",
            "--",
            "-Zunpretty=expanded",
        ]);
        let expanded =
            expanded.or_else(|_| self.cargo(&["rustc", "--quiet", "--", "-Zunpretty=expanded"]))?;
        Ok(expanded.iter().filter(|byte| **byte == b'\n').count())
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.folder)?;
    let mut crates = Vec::new();
    for mapper in MAPPERS {
        let own = Crate::write(mapper, &arguments.folder, arguments.models)?;
        eprintln!("{}: its dependencies", mapper.name);
        own.check()?;
        crates.push(own);
    }
    let mut times = vec![(Vec::new(), Vec::new()); crates.len()];
    for round in 0..arguments.rounds {
        for (own, (whole, again)) in crates.iter().zip(&mut times) {
            whole.push(own.check_whole()?);
            again.push(own.check_again(round)?);
        }
    }
    println!(
        "{} models with 15 fields, medians of {}",
        arguments.models, arguments.rounds
    );
    println!(
        "{:<10}{:>16}{:>26}{:>18}",
        "", "cargo check", "after a field changed", "lines expanded"
    );
    for (own, (whole, again)) in crates.iter().zip(times) {
        println!(
            "{:<10}{:>14.2} s{:>24.2} s{:>18}",
            own.mapper.name,
            median(whole).as_secs_f64(),
            median(again).as_secs_f64(),
            own.expanded_lines()?
        );
    }
    Ok(())
}
