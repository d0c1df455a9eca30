//! What models cost the compiler: a crate of many with `odm`, beside the same with toasty and with SeaORM.
//!
//! Each crate has the models that are asked for, with fifteen fields each, in a module of its own; each refers to the one before, which lists
//! what refers to it, in chains of ten (toasty's do not compile that are much longer); with `odm` it has a copy of a field of that one too, which the others do not know. Dependencies are compiled before.
//! Then the three are checked in turns, as a whole, and again after a field of one model has got another name: what a person waits for.
//!
//! With `--size` each has programs too, which insert, read, change and delete one of each of their models: one of ten models, and one of
//! all. Of both, built as a release and stripped, the size is told, and what a model adds to it.
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
    /// Whether programs are built too: releases of everything that the three depend on.
    #[arg(long)]
    size: bool,
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
    /// A program that uses the first so many of them.
    program: fn(usize) -> String,
}

const MAPPERS: [Mapper; 3] = [
    Mapper {
        name: "odm",
        dependencies: "odm = { path = \"ODM\", features = [\"engine\"] }\nserde = { version = \"1\", features = [\"derive\"] }\n",
        model: odm_model,
        whole: |models| odm_schema("All", "", models),
        program: odm_program,
    },
    Mapper {
        name: "toasty",
        dependencies: "toasty = { version = \"=0.11.0\", features = [\"sqlite\"] }\n",
        model: toasty_model,
        whole: |_| String::new(),
        program: toasty_program,
    },
    Mapper {
        name: "sea-orm",
        dependencies: "sea-orm = { version = \"=2.0.4\", features = [\"macros\", \"runtime-tokio\", \"sqlx-sqlite\"] }\n",
        model: sea_model,
        whole: |_| String::new(),
        program: sea_program,
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

/// The name of that one, before it gets another.
const FIELD: &str = "tag";

/// All of them, with the name of that one.
fn fields(tag: &str) -> impl Iterator<Item = (&str, &str)> {
    FIELDS.into_iter().chain([("rank", "i64"), (tag, "String")])
}

fn values(field: &str) -> String {
    let mut text = String::new();
    for (name, ty) in fields(field) {
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

fn odm_schema(name: &str, from: &str, models: usize) -> String {
    let all: Vec<_> = (0..models).map(|n| format!("{from}m{n}::M{n}")).collect();
    format!(
        "\n#[derive(odm::Schema)]\n#[schema(models({}))]\npub struct {name};\n",
        all.join(", ")
    )
}

/// A value for each of the plain fields, each written by `wrap`.
fn some_values(wrap: fn(&str) -> String) -> String {
    let mut text = String::new();
    for (name, ty) in fields(FIELD) {
        let value = match ty {
            "String" => "String::from(\"some\")",
            "Option<String>" => "None",
            "f64" => "1.5",
            "bool" => "true",
            _ => "1",
        };
        let _ = write!(text, "{name}: {}, ", wrap(value));
    }
    text
}

/// A program with these lines for each of some models.
fn program(head: &str, opened: &str, models: usize, lines: impl Fn(usize) -> String) -> String {
    let mut text = format!(
        "{head}\n#[tokio::main]\nasync fn main() -> Result<(), Box<dyn std::error::Error>> {{\n    \
         let url = std::env::args().nth(1).ok_or(\"a URL\")?;\n{opened}"
    );
    for number in 0..models {
        let _ = writeln!(text, "    {}", lines(number));
    }
    text + "    Ok(())\n}\n"
}

fn odm_program(models: usize) -> String {
    let schema = odm_schema("Used", "models_odm::", models);
    let opened = "    let db = odm::Database::<Used>::open(&url).await?;\n";
    program(&schema, opened, models, |n| {
        let prev = before(n).map_or(String::new(), |_| "prev: odm::Ref::new(1), ".to_owned());
        format!(
            "db.insert(models_odm::m{n}::NewM{n} {{ id: 1, {}{prev}}}).await?; \
             let found = db.get::<models_odm::m{n}::M{n}>(1).await?; \
             db.update::<models_odm::m{n}::M{n}>(1).set(|m| m.name(), found.title).await?; \
             db.delete::<models_odm::m{n}::M{n}>(1).await?;",
            some_values(ToOwned::to_owned)
        )
    })
}

fn toasty_program(models: usize) -> String {
    let all: Vec<_> = (0..models)
        .map(|n| format!("models_toasty::m{n}::M{n}"))
        .collect();
    let opened = format!(
        "    let mut db = toasty::Db::builder().models(toasty::models!({})).connect(&url).await?;\n",
        all.join(", ")
    );
    program("", &opened, models, |n| {
        let prev = before(n).map_or("", |_| "prev_id: 1, prev_name: String::from(\"some\"), ");
        format!(
            "{{ use models_toasty::m{n}::M{n}; toasty::create!(M{n} {{ id: 1, {}{prev}}}).exec(&mut db).await?; \
             let mut found = M{n}::get_by_id(&mut db, &1).await?; let title = found.title.clone(); \
             found.update().name(title).exec(&mut db).await?; found.delete().exec(&mut db).await?; }}",
            some_values(ToOwned::to_owned)
        )
    })
}

fn sea_program(models: usize) -> String {
    let opened = "    let db = sea_orm::Database::connect(&url).await?;\n";
    let head = "use sea_orm::{ActiveModelTrait, EntityTrait, IntoActiveModel, Set};\n";
    program(head, opened, models, |n| {
        let prev = before(n).map_or(
            "",
            |_| "prev_id: Set(1), prev_name: Set(String::from(\"some\")), ",
        );
        format!(
            "{{ use models_sea_orm::m{n}::{{ActiveModel, Entity}}; \
             ActiveModel {{ id: Set(1), {}{prev}..Default::default() }}.insert(&db).await?; \
             let found = Entity::find_by_id(1).one(&db).await?.ok_or(\"it is there\")?; let title = found.title.clone(); \
             let mut found = found.into_active_model(); found.name = Set(title); found.update(&db).await?; \
             Entity::delete_by_id(1).exec(&db).await?; }}",
            some_values(|value| format!("Set({value})"))
        )
    })
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
            "[package]\nname = \"models-{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\
             tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n[profile.release]\nstrip = true\n\n[workspace]\n",
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
            own.write_model(number, FIELD)?;
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
        self.cargo(&["check", "--quiet", "--lib"])?;
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
            FIELD
        };
        self.write_model(self.changed(), field)?;
        self.check()
    }

    /// In the middle of a chain: one with a reference and a copy, whose fields another one copies.
    fn changed(&self) -> usize {
        (self.models / 2 + CHAIN / 2).min(self.models - 1)
    }

    /// How many bytes a program of so many models has.
    fn program_size(&self, models: usize) -> Result<u64> {
        self.write_model(self.changed(), FIELD)?;
        let name = format!("of_{models}");
        let bin = self.folder.join("src/bin");
        fs::create_dir_all(&bin)?;
        fs::write(
            bin.join(format!("{name}.rs")),
            (self.mapper.program)(models),
        )?;
        self.cargo(&["build", "--quiet", "--release", "--bin", &name])?;
        let built = self.folder.join("target/release").join(&name);
        // It is one that runs, as far as it finds no database.
        let refused = Command::new(&built).output()?;
        if refused.status.success() {
            return Err(format!("{name} wants no URL").into());
        }
        Ok(fs::metadata(built)?.len())
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
        "{:<10}{:>16}{:>10}{:>26}{:>10}{:>18}",
        "", "cargo check", "ratio", "after a field changed", "ratio", "lines expanded"
    );
    let mut first = None;
    for (own, (whole, again)) in crates.iter().zip(times) {
        let (whole, again) = (median(whole).as_secs_f64(), median(again).as_secs_f64());
        let (first_whole, first_again) = *first.get_or_insert((whole, again));
        println!(
            "{:<10}{whole:>14.2} s{:>9.1}x{again:>24.2} s{:>9.1}x{:>18}",
            own.mapper.name,
            whole / first_whole,
            again / first_again,
            own.expanded_lines()?
        );
    }
    if !arguments.size {
        return Ok(());
    }
    let few = CHAIN.min(arguments.models);
    println!(
        "\n{:<10}{:>16}{:>16}{:>18}",
        "",
        format!("{few} models"),
        format!("{} models", arguments.models),
        "a model more"
    );
    for own in &crates {
        let (some, all) = (own.program_size(few)?, own.program_size(arguments.models)?);
        let more = all.saturating_sub(some) / (arguments.models - few).max(1) as u64;
        println!(
            "{:<10}{:>12} KiB{:>12} KiB{:>14} KiB",
            own.mapper.name,
            some / 1024,
            all / 1024,
            more / 1024
        );
    }
    Ok(())
}
