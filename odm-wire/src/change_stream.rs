//! Change streams: `aggregate` with the stage `$changeStream`.

use std::future::poll_fn;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use odm_engine::{Aggregate, ChangeStream, Database, FullDocument, Watch, WatchFrom};

use crate::arguments::Arguments;
use crate::documents;
use crate::error::{CommandError, Result, code};
use crate::namespace::Namespaces;

/// The stages that a pipeline on a change stream can have, as on MongoDB.
const ALLOWED_STAGES: &[&str] = &[
    "$addFields",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
];

/// The number of events that the pipeline drops before a read ends without an event.
const MAX_DROPPED_EVENTS: usize = 100;

/// The collections that a change stream watches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Watched {
    /// A collection, by its name in the file.
    Collection(String),
    Database(String),
    /// All databases.
    Server,
}

/// A change stream of a client.
pub(crate) struct ChangeCursor {
    database: Database,
    stream: ChangeStream,
    watched: Watched,
    namespaces: Namespaces,
    /// The stages after `$changeStream`.
    stages: Vec<RawDocumentBuf>,
}

impl ChangeCursor {
    /// Opens a change stream.
    ///
    /// # Errors
    /// Invalid options and stages; options that are not supported; a position that is not in the history; errors of the engine.
    pub(crate) fn open(
        database: &Database,
        namespaces: &Namespaces,
        watched: Watched,
        options: &RawDocument,
        stages: &[RawDocumentBuf],
    ) -> Result<ChangeCursor> {
        check_stages(stages)?;
        let mut options = Arguments::nested("$changeStream", options)?;
        let full_document = match options.text("fullDocument")?.as_deref() {
            None | Some("default") => FullDocument::Default,
            Some("updateLookup") => FullDocument::UpdateLookup,
            Some(mode @ ("whenAvailable" | "required")) => return Err(no_images(mode)),
            Some(other) => {
                return Err(CommandError::bad_value(format!(
                    "unknown fullDocument '{other}'"
                )));
            }
        };
        match options.text("fullDocumentBeforeChange")?.as_deref() {
            None | Some("off") => {}
            Some(mode @ ("whenAvailable" | "required")) => return Err(no_images(mode)),
            Some(other) => {
                let message = format!("unknown fullDocumentBeforeChange '{other}'");
                return Err(CommandError::bad_value(message));
            }
        }
        if options.flag("showExpandedEvents")? {
            let message = "expanded events of change streams are not supported";
            return Err(CommandError::not_supported(message));
        }
        let watched = match (options.flag("allChangesForCluster")?, watched) {
            (false, watched) => watched,
            (true, Watched::Database(name)) if name == "admin" => Watched::Server,
            (true, _) => {
                let message = "a stream of all databases runs on the database `admin`";
                return Err(CommandError::new(code::INVALID_OPTIONS, message));
            }
        };
        let from = parse_start(&mut options)?;
        options.finish()?;
        let stream = database.watch(&Watch {
            collection: match &watched {
                Watched::Collection(name) => Some(name.clone()),
                Watched::Database(_) | Watched::Server => None,
            },
            filter: RawDocumentBuf::new(),
            from,
            full_document,
        })?;
        Ok(ChangeCursor {
            database: database.clone(),
            stream,
            watched,
            namespaces: namespaces.clone(),
            stages: stages.to_vec(),
        })
    }

    /// Returns the next event that the pipeline keeps. Returns `None` if no further event is committed yet, or if the pipeline has
    /// dropped [`MAX_DROPPED_EVENTS`] events: the caller checks its deadline, and calls again.
    ///
    /// # Errors
    /// History lost; errors of the stages; errors of the engine.
    pub(crate) fn try_next(&mut self) -> Result<Option<RawDocumentBuf>> {
        for _ in 0..MAX_DROPPED_EVENTS {
            let Some(event) = self.stream.try_next()? else {
                return Ok(None);
            };
            if let Some(event) = self.with_namespace(&event)?
                && let Some(event) = self.run_stages(event)?
            {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Waits until [`try_next`](ChangeCursor::try_next) has a committed event to examine.
    pub(crate) async fn wait(&mut self) {
        poll_fn(|context| self.stream.poll_committed(context)).await;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stream.is_over()
    }

    pub(crate) fn resume_token(&self) -> RawDocumentBuf {
        self.stream.resume_token()
    }

    /// Adds the database to the namespace of an event. Returns `None` if the event belongs to a different database.
    fn with_namespace(&self, event: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        let mut output = RawDocumentBuf::new();
        for element in event {
            let (name, value) = element?;
            match (name.as_str(), value) {
                ("ns", RawBsonRef::Document(namespace)) => {
                    let namespace = self.namespaces.namespace_of(namespace.get_str("coll")?);
                    if let Watched::Database(watched) = &self.watched
                        && *watched != namespace.database
                    {
                        return Ok(None);
                    }
                    let namespace =
                        rawdoc! { "db": namespace.database, "coll": namespace.collection };
                    output.append(name, namespace);
                }
                _ => output.append(name, value),
            }
        }
        Ok(Some(output))
    }

    fn run_stages(&self, event: RawDocumentBuf) -> Result<Option<RawDocumentBuf>> {
        if self.stages.is_empty() {
            return Ok(Some(event));
        }
        let token = self.stream.resume_token().into();
        let aggregate = Aggregate {
            pipeline: documents::pipeline_on([event], &self.stages),
            ..Aggregate::default()
        };
        let kept = self
            .database
            .aggregate(documents::NO_COLLECTION, &aggregate)?
            .next();
        let Some(kept) = kept.transpose()? else {
            return Ok(None);
        };
        if kept.get("_id")?.map(RawBson::from) != Some(token) {
            let message =
                "the pipeline changed the resume token `_id` of an event; keep the field `_id`";
            let error = CommandError::new(code::CHANGE_STREAM_FATAL_ERROR, message);
            return Err(error.with_label("NonResumableChangeStreamError"));
        }
        Ok(Some(kept))
    }
}

fn no_images(mode: &str) -> CommandError {
    CommandError::not_supported(format!(
        "change streams have no stored images of documents: '{mode}' is not supported"
    ))
}

fn check_stages(stages: &[RawDocumentBuf]) -> Result<()> {
    for stage in stages {
        let name = stage.iter().next().transpose()?;
        let name = name.map_or("", |(name, _)| name.as_str());
        if !ALLOWED_STAGES.contains(&name) {
            let message = format!("{name} is not permitted in a $changeStream pipeline");
            return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
        }
    }
    Ok(())
}

fn parse_start(options: &mut Arguments) -> Result<WatchFrom> {
    let tokens = [
        options.document("resumeAfter")?,
        options.document("startAfter")?,
    ];
    let time = options.value("startAtOperationTime");
    let token = match tokens {
        [Some(_), Some(_)] => return Err(several_starts()),
        [token, None] | [None, token] => token,
    };
    match (token, time) {
        (None, None) => Ok(WatchFrom::Now),
        (Some(token), None) => Ok(WatchFrom::After(token)),
        (None, Some(RawBson::Timestamp(time))) => Ok(WatchFrom::At(time)),
        (None, Some(other)) => Err(options.wrong_type("startAtOperationTime", &other, "timestamp")),
        (Some(_), Some(_)) => Err(several_starts()),
    }
}

fn several_starts() -> CommandError {
    let message = "Only one type of resume option is allowed, but multiple were found.";
    CommandError::new(40674, message)
}

/// Splits a pipeline that begins with `$changeStream` into the options and the remaining stages.
pub(crate) fn split_pipeline(
    pipeline: &[RawDocumentBuf],
) -> Result<Option<(RawDocumentBuf, &[RawDocumentBuf])>> {
    let Some((first, rest)) = pipeline.split_first() else {
        return Ok(None);
    };
    match first.get("$changeStream")? {
        None => Ok(None),
        Some(RawBsonRef::Document(options)) => Ok(Some((options.to_owned(), rest))),
        Some(_) => Err(CommandError::new(
            50808,
            "$changeStream stage expects a document as argument",
        )),
    }
}
