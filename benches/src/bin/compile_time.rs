//! Measures the compile time of models: a crate of many models with `odm`, compared with toasty and with SeaORM.
//!
//! Each crate has the requested number of models with fifteen fields each, in a module per model. Each model refers to the
//! previous model, which has an inverse, in chains of ten. (Much longer chains do not compile with toasty.) With `odm`, a model
//! also has a copy of a field of the previous model; toasty and SeaORM have no copies. The dependencies are compiled before the
//! measurement. The program then checks the three crates in turns: the whole crate, and again after the rename of a field. These
//! are the times that a developer waits for.
//!
//! With `--size`, each crate also has programs that insert, read, change and delete a document of each model: a program with ten
//! models, and a program with all models. The output shows the sizes of both stripped release builds, and the size that a model
//! adds.
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

/// Measures the time of `cargo check`, and counts the lines of expanded code.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of models in each crate.
    #[arg(long, default_value_t = 100)]
    models: usize,
    /// The number of checks of each crate.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The folder for the crates and the builds.
    #[arg(long, default_value = "target/compile-time")]
    folder: PathBuf,
    /// Also builds the programs. Needs release builds of all dependencies of the three crates.
    #[arg(long)]
    size: bool,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A mapper, and how to write the models with the mapper.
#[derive(Clone, Copy)]
struct Mapper {
    name: &'static str,
    dependencies: &'static str,
    /// Returns a model by number, with the name of the renamed field.
    model: fn(number: usize, models: usize, field: &str) -> String,
    /// Returns the code next to the models, by the number of models.
    around_models: fn(usize) -> String,
    /// Returns a program that uses the first models, by the number of models.
    program: fn(usize) -> String,
}

const MAPPERS: [Mapper; 3] = [
    Mapper {
        name: "odm",
        dependencies: "odm = { path = \"ODM\", features = [\"engine\"] }\nserde = { version = \"1\", features = [\"derive\"] }\n",
        model: odm_model,
        around_models: |models| odm_schema("All", "", models),
        program: odm_program,
    },
    Mapper {
        name: "toasty",
        dependencies: "toasty = { version = \"=0.11.0\", features = [\"sqlite\"] }\n",
        model: toasty_model,
        around_models: |_| String::new(),
        program: toasty_program,
    },
    Mapper {
        name: "sea-orm",
        dependencies: "sea-orm = { version = \"=2.0.4\", features = [\"macros\", \"runtime-tokio\", \"sqlx-sqlite\"] }\n",
        model: sea_model,
        around_models: |_| String::new(),
        program: sea_program,
    },
];

/// The length of a chain of models.
const CHAIN_LENGTH: usize = 10;

/// Returns the model before a model in the chain, if any.
fn previous_model(number: usize) -> Option<usize> {
    (!number.is_multiple_of(CHAIN_LENGTH)).then(|| number - 1)
}

/// Returns the model after a model in the chain, if any.
fn next_model(number: usize, models: usize) -> Option<usize> {
    let next = number + 1;
    (next < models && !next.is_multiple_of(CHAIN_LENGTH)).then_some(next)
}

/// The fields with plain values, without the renamed field.
const PLAIN_FIELDS: [(&str, &str); 9] = [
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

/// The name of the renamed field before the rename.
const RENAMED_FIELD: &str = "tag";

/// Returns all plain fields, with this name for the renamed field.
fn fields(tag: &str) -> impl Iterator<Item = (&str, &str)> {
    PLAIN_FIELDS
        .into_iter()
        .chain([("rank", "i64"), (tag, "String")])
}

fn field_declarations(field: &str) -> String {
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
        field_declarations(field)
    );
    if let Some(before) = previous_model(number) {
        let _ = write!(
            text,
            "    #[reference(inverse = nexts)]\n    pub prev: Ref<super::m{before}::M{before}>,\n    \
             #[denormalize(from = prev.name)]\n    pub prev_name: String,\n"
        );
    }
    if let Some(next) = next_model(number, models) {
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

/// Returns a value for each plain field, formatted by `wrap`.
fn some_values(wrap: fn(&str) -> String) -> String {
    let mut text = String::new();
    for (name, ty) in fields(RENAMED_FIELD) {
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

/// Returns a program that has these lines for each of the first models.
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
        let prev =
            previous_model(n).map_or(String::new(), |_| "prev: odm::Ref::new(1), ".to_owned());
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
        let prev =
            previous_model(n).map_or("", |_| "prev_id: 1, prev_name: String::from(\"some\"), ");
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
        let prev = previous_model(n).map_or(
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
        field_declarations(field)
    );
    if let Some(before) = previous_model(number) {
        let _ = write!(
            text,
            "    #[index]\n    pub prev_id: i64,\n    #[belongs_to(key = prev_id, references = id)]\n    \
             pub prev: toasty::Deferred<super::m{before}::M{before}>,\n    pub prev_name: String,\n"
        );
    }
    if let Some(next) = next_model(number, models) {
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
        field_declarations(field)
    );
    if let Some(before) = previous_model(number) {
        let _ = write!(
            text,
            "    pub prev_id: i64,\n    #[sea_orm(belongs_to, from = \"prev_id\", to = \"id\")]\n    \
             pub prev: BelongsTo<super::m{before}::Entity>,\n    pub prev_name: String,\n"
        );
    }
    if let Some(next) = next_model(number, models) {
        let _ = write!(
            text,
            "    #[sea_orm(has_many)]\n    pub nexts: HasMany<super::m{next}::Entity>,\n"
        );
    }
    text + "}\n\nimpl ActiveModelBehavior for ActiveModel {}\n"
}

/// A generated crate on disk.
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
        fs::write(
            folder.join("src/lib.rs"),
            lib + &(mapper.around_models)(models),
        )?;
        let written = Self {
            mapper,
            folder,
            models,
        };
        for number in 0..models {
            written.write_model(number, RENAMED_FIELD)?;
        }
        Ok(written)
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
            // Unstable flags on the stable compiler: the compiler that counts lines must be the compiler of the dependencies.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_INCREMENTAL", "1")
            .output()?;
        match done.status.success() {
            true => Ok(done.stdout),
            false => {
                let errors = String::from_utf8_lossy(&done.stderr);
                let first: Vec<_> = errors.lines().take(30).collect();
                Err(first.join("\n").into())
            }
        }
    }

    fn check(&self) -> Result<Duration> {
        let start = Instant::now();
        self.cargo(&["check", "--quiet", "--lib"])?;
        Ok(start.elapsed())
    }

    /// Checks the crate alone, without the dependencies.
    fn check_whole(&self) -> Result<Duration> {
        self.cargo(&[
            "clean",
            "--quiet",
            "-p",
            &format!("models-{}", self.mapper.name),
        ])?;
        self.check()
    }

    fn check_after_rename(&self, round: usize) -> Result<Duration> {
        let field = if round.is_multiple_of(2) {
            "label"
        } else {
            RENAMED_FIELD
        };
        self.write_model(self.changed_model(), field)?;
        self.check()
    }

    /// Returns the changed model: a model in the middle of a chain, with a reference, a copy and a dependent copy.
    fn changed_model(&self) -> usize {
        (self.models / 2 + CHAIN_LENGTH / 2).min(self.models - 1)
    }

    /// Returns the size in bytes of a program with this number of models.
    fn program_size(&self, models: usize) -> Result<u64> {
        self.write_model(self.changed_model(), RENAMED_FIELD)?;
        let name = format!("of_{models}");
        let bin = self.folder.join("src/bin");
        fs::create_dir_all(&bin)?;
        fs::write(
            bin.join(format!("{name}.rs")),
            (self.mapper.program)(models),
        )?;
        self.cargo(&["build", "--quiet", "--release", "--bin", &name])?;
        let built = self.folder.join("target/release").join(&name);
        // The program must start, and then fail because the URL is missing.
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
        let mapper_crate = Crate::write(mapper, &arguments.folder, arguments.models)?;
        eprintln!("{}: its dependencies", mapper.name);
        mapper_crate.check()?;
        crates.push(mapper_crate);
    }
    let mut times = vec![(Vec::new(), Vec::new()); crates.len()];
    for round in 0..arguments.rounds {
        for (mapper_crate, (full, incremental)) in crates.iter().zip(&mut times) {
            full.push(mapper_crate.check_whole()?);
            incremental.push(mapper_crate.check_after_rename(round)?);
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
    for (mapper_crate, (full, incremental)) in crates.iter().zip(times) {
        let (full, incremental) = (
            median(full).as_secs_f64(),
            median(incremental).as_secs_f64(),
        );
        let (first_full, first_incremental) = *first.get_or_insert((full, incremental));
        println!(
            "{:<10}{full:>14.2} s{:>9.1}x{incremental:>24.2} s{:>9.1}x{:>18}",
            mapper_crate.mapper.name,
            full / first_full,
            incremental / first_incremental,
            mapper_crate.expanded_lines()?
        );
    }
    if !arguments.size {
        return Ok(());
    }
    let few = CHAIN_LENGTH.min(arguments.models);
    println!(
        "\n{:<10}{:>16}{:>16}{:>18}",
        "",
        format!("{few} models"),
        format!("{} models", arguments.models),
        "a model more"
    );
    for mapper_crate in &crates {
        let (some, all) = (
            mapper_crate.program_size(few)?,
            mapper_crate.program_size(arguments.models)?,
        );
        let more = all.saturating_sub(some) / (arguments.models - few).max(1) as u64;
        println!(
            "{:<10}{:>12} KiB{:>12} KiB{:>14} KiB",
            mapper_crate.mapper.name,
            some / 1024,
            all / 1024,
            more / 1024
        );
    }
    Ok(())
}
