//! A replica set of three members, whose primary can be lost.

use std::time::{Duration, Instant};

use bson::{Bson, doc};

use super::{ELECTION, REPLICA_SET, binary, direct, process::Process, says};

/// A replica set of three members: any one of them can be killed, and the other two go on.
#[derive(Debug)]
pub struct Trio(Vec<Process>);

impl Trio {
    /// Starts it, and waits until all three are there.
    ///
    /// Must be called on a runtime of several threads, as all that waits for processes here.
    ///
    /// # Errors
    ///
    /// If none can be had, what to do.
    pub async fn start() -> Result<Self, String> {
        let program = binary::find()?;
        let start = |_| Process::start(&program, Some(REPLICA_SET));
        let members: Result<_, _> = tokio::task::block_in_place(|| (0..3).map(start).collect());
        let trio = Self(members?);
        let members = (0_i32..)
            .zip(&trio.0)
            .map(|(id, member)| Bson::Document(doc! { "_id": id, "host": host(member) }));
        let config = doc! {
            "_id": REPLICA_SET,
            "members": members.collect::<Vec<_>>(),
            // A lost primary is missed soon.
            "settings": { "electionTimeoutMillis": 2_000, "heartbeatIntervalMillis": 500 },
        };
        let first = direct(trio.0[0].port()).await?.database("admin");
        let initiated = first.run_command(doc! { "replSetInitiate": config });
        initiated.await.map_err(|error| error.to_string())?;
        trio.until_whole().await?;
        Ok(trio)
    }

    /// The URL of a database on it.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let hosts: Vec<_> = self.0.iter().map(host).collect();
        format!(
            "mongodb://{}/{database}?replicaSet={REPLICA_SET}",
            hosts.join(",")
        )
    }

    /// Kills the primary as a crash would, waits until another member has taken its place, starts it again, and waits until it has come
    /// up with the others.
    ///
    /// # Errors
    ///
    /// If one of these does not happen.
    pub async fn lose_primary(&mut self) -> Result<(), String> {
        let primary = self.primary().await?;
        tokio::task::block_in_place(|| self.0[primary].kill())?;
        self.primary().await?;
        tokio::task::block_in_place(|| self.0[primary].restart())?;
        self.until_whole().await
    }

    /// Lets only the primary have what is written from now on, or the others again what they have missed.
    ///
    /// # Errors
    ///
    /// If one of the others does not do so.
    pub async fn hold_back(&self, held: bool) -> Result<(), String> {
        let command = match held {
            true => doc! { "fsync": 1, "lock": true },
            false => doc! { "fsyncUnlock": 1 },
        };
        let primary = self.primary().await?;
        for (position, member) in self.0.iter().enumerate() {
            if position != primary {
                let member = direct(member.port()).await?.database("admin");
                let done = member.run_command(command.clone()).await;
                done.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Stops the replication to one secondary: the member has none of the later writes, and goes on answering reads. Its tag is
    /// `lag:forever`, for `readPreferenceTags`. The other two members are a majority.
    ///
    /// # Errors
    ///
    /// If the set refuses the configuration, or the member has no test commands.
    pub async fn stop_one(&self) -> Result<(), String> {
        let text = |error: mongodb::error::Error| error.to_string();
        let primary = self.primary().await?;
        let stopped = (primary + 1) % self.0.len();
        let admin = direct(self.0[primary].port()).await?.database("admin");
        let answer = admin.run_command(doc! { "replSetGetConfig": 1 }).await;
        let mut config = answer.map_err(text)?;
        let config = config
            .get_document_mut("config")
            .map_err(|error| error.to_string())?;
        let version = config.get_i32("version").unwrap_or_default();
        config.insert("version", version + 1);
        let members = config.get_array_mut("members").ok();
        let member = members.and_then(|members| members.get_mut(stopped)?.as_document_mut());
        let member = member.ok_or("the configuration has no such member")?;
        member.extend(doc! { "priority": 0, "tags": { "lag": "forever" } });
        let reconfig = doc! { "replSetReconfig": config.clone() };
        admin.run_command(reconfig).await.map_err(text)?;
        // Wait for the member to apply the configuration.
        let member = direct(self.0[stopped].port()).await?.database("admin");
        let deadline = Instant::now() + ELECTION;
        while Instant::now() < deadline {
            let hello = member.run_command(doc! { "hello": 1 }).await;
            if hello.is_ok_and(|hello| hello.contains_key("tags")) {
                let stop = doc! { "configureFailPoint": "stopReplProducer", "mode": "alwaysOn" };
                return member.run_command(stop).await.map(drop).map_err(text);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the member did not take its configuration".to_owned())
    }

    /// Which of the members is the primary, once one is.
    async fn primary(&self) -> Result<usize, String> {
        let deadline = Instant::now() + ELECTION;
        while Instant::now() < deadline {
            for (position, member) in self.0.iter().enumerate() {
                if member.is_running()
                    && says(&direct(member.port()).await?, "isWritablePrimary").await
                {
                    return Ok(position);
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the replica set of three did not elect a primary".to_owned())
    }

    /// Waits until one member is the primary, and the others follow it.
    async fn until_whole(&self) -> Result<(), String> {
        let deadline = Instant::now() + ELECTION;
        while Instant::now() < deadline {
            let primary = self.primary().await?;
            let mut following = 0;
            for (position, member) in self.0.iter().enumerate() {
                if position != primary && says(&direct(member.port()).await?, "secondary").await {
                    following += 1;
                }
            }
            if following == 2 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("not all of the replica set of three came up".to_owned())
    }
}

fn host(member: &Process) -> String {
    format!("127.0.0.1:{}", member.port())
}
