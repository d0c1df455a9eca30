//! A replica set of three members with a primary that tests can kill.

use std::time::{Duration, Instant};

use bson::{Bson, doc};

use super::{
    MAX_ELECTION_TIME, REPLICA_SET, binary, connect_directly, hello_flag, process::Process,
};

/// A replica set of three members, which keeps working after a kill of a single member.
#[derive(Debug)]
pub struct ThreeMemberSet(Vec<Process>);

impl ThreeMemberSet {
    /// Starts the replica set, and waits until all three members are ready.
    ///
    /// Requires a runtime with several threads, because the function blocks while processes start.
    ///
    /// # Errors
    ///
    /// Returns a message that says how to provide a server, if no server is available.
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
            // Detect a lost primary quickly.
            "settings": { "electionTimeoutMillis": 2_000, "heartbeatIntervalMillis": 500 },
        };
        let first = connect_directly(trio.0[0].port()).await?.database("admin");
        let initiated = first.run_command(doc! { "replSetInitiate": config });
        initiated.await.map_err(|error| error.to_string())?;
        trio.wait_for_all_members().await?;
        Ok(trio)
    }

    /// Returns the URL of a database on the replica set.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let hosts: Vec<_> = self.0.iter().map(host).collect();
        format!(
            "mongodb://{}/{database}?replicaSet={REPLICA_SET}",
            hosts.join(",")
        )
    }

    /// Kills the primary like a crash, and waits for the election of a new primary. Then starts the killed member again and waits
    /// until all members are ready.
    ///
    /// # Errors
    ///
    /// Returns an error if a step does not finish in time.
    pub async fn lose_primary(&mut self) -> Result<(), String> {
        let wait_for_primary = self.primary().await?;
        tokio::task::block_in_place(|| self.0[wait_for_primary].kill())?;
        self.primary().await?;
        tokio::task::block_in_place(|| self.0[wait_for_primary].restart())?;
        self.wait_for_all_members().await
    }

    /// Stops (`true`) or resumes (`false`) the replication from the primary to the two secondaries.
    ///
    /// # Errors
    ///
    /// Returns an error if a secondary refuses the command.
    pub async fn pause_replication(&self, held: bool) -> Result<(), String> {
        let command = match held {
            true => doc! { "fsync": 1, "lock": true },
            false => doc! { "fsyncUnlock": 1 },
        };
        let primary = self.primary().await?;
        for (position, member) in self.0.iter().enumerate() {
            if position != primary {
                let member = connect_directly(member.port()).await?.database("admin");
                let done = member.run_command(command.clone()).await;
                done.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Stops the replication to a single secondary. The member receives no later writes, and keeps answering reads. The tag of
    /// the member is `lag:forever`, for `readPreferenceTags`. The remaining two members are a majority.
    ///
    /// # Errors
    ///
    /// If the set refuses the configuration, or the member has no test commands.
    pub async fn stop_replication_to_one(&self) -> Result<(), String> {
        let text = |error: mongodb::error::Error| error.to_string();
        let primary = self.primary().await?;
        let stopped = (primary + 1) % self.0.len();
        let admin = connect_directly(self.0[primary].port())
            .await?
            .database("admin");
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
        let member = connect_directly(self.0[stopped].port())
            .await?
            .database("admin");
        let deadline = Instant::now() + MAX_ELECTION_TIME;
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

    /// Waits for a primary, and returns the position of the member.
    async fn primary(&self) -> Result<usize, String> {
        let deadline = Instant::now() + MAX_ELECTION_TIME;
        while Instant::now() < deadline {
            for (position, member) in self.0.iter().enumerate() {
                if member.is_running()
                    && hello_flag(&connect_directly(member.port()).await?, "isWritablePrimary")
                        .await
                {
                    return Ok(position);
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the replica set of three did not elect a primary".to_owned())
    }

    /// Waits until the set has a primary and two secondaries.
    async fn wait_for_all_members(&self) -> Result<(), String> {
        let deadline = Instant::now() + MAX_ELECTION_TIME;
        while Instant::now() < deadline {
            let primary = self.primary().await?;
            let mut following = 0;
            for (position, member) in self.0.iter().enumerate() {
                if position != primary
                    && hello_flag(&connect_directly(member.port()).await?, "secondary").await
                {
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
