package gauges

import "strings"

const (
	requestsHelp = "Requests that were refused since the agent started: 429, a client asks for too much; 503, all do."
	memoryHelp   = "Bytes of memory that the task's limit counts."
	rssHelp      = "Bytes of memory of the task's processes."
	mostHelp     = "Bytes of memory that the task has used at the most."
	writesHelp   = "Entries that were not taken since the agent started, for want of room on the disk."
)

// helps say what a name means; of those that end with a dot, the names that begin with it.
var helps = []struct{ name, text string }{
	{"nomad.nomad.job_summary.", "Allocations of a group of a job in this state."},
	{"nomad.nomad.job_status.", "Jobs of this status."},
	{"nomad.nomad.blocked_evals.total_blocked", "Evaluations that wait for room for what could not be placed."},
	{"nomad.client.allocations.", "Allocations on the node in this state."},
	{"nomad.client.allocated.cpu", "MHz that are given to allocations."},
	{"nomad.client.allocated.memory", "MiB of memory that are given to allocations."},
	{"nomad.client.allocated.disk", "MiB of disk that are given to allocations."},
	{"nomad.client.unallocated.cpu", "MHz that may be given to allocations."},
	{"nomad.client.unallocated.memory", "MiB of memory that may be given to allocations."},
	{"nomad.client.unallocated.disk", "MiB of disk that may be given to allocations."},
	{"nomad.client.host.disk.size", "Bytes of the file system that the data_dir is on."},
	{"nomad.client.host.disk.used", "Bytes of it that are used."},
	{"nomad.client.host.disk.available", "Bytes of it that the agent may still use."},
	{"nomad.http.requests_refused", requestsHelp},
	{"nomad.raft.refused_disk_full", writesHelp},
	{"berth.job.allocs", "Allocations of a group of a job by state."},
	{"berth.jobs.count", "Jobs by status."},
	{"berth.evals.count", "Evaluations by status: blocked ones wait for room for what could not be placed."},
	{"berth.claims.count", "Claims of volumes by state."},
	{"berth.volumes.count", "Volumes of a plugin by phase."},
	{"berth.volumes.capacity_bytes", "Capacity of a plugin's volumes by phase."},
	{"berth.plugins.healthy", "Instances of a storage plugin that are well, by role."},
	{"berth.plugins.expected", "Instances of a storage plugin that there should be, by role."},
	{"berth.client.allocs", "Allocations on the node by state."},
	{"berth.client.orphans", "Allocations on the node of which nobody decides: berth node orphans list."},
	{"berth.client.allocated.cpu", "MHz that are given to allocations."},
	{"berth.client.allocated.memory", "MiB of memory that are given to allocations."},
	{"berth.client.allocated.disk", "MiB of disk that are given to allocations."},
	{"berth.client.unallocated.cpu", "MHz that may be given to allocations."},
	{"berth.client.unallocated.memory", "MiB of memory that may be given to allocations."},
	{"berth.client.unallocated.disk", "MiB of disk that may be given to allocations."},
	{"berth.client.consul.services", "Services on the node that are to be registered in Consul."},
	{"berth.client.consul.unregistered",
		"Those of them that are not registered there; events of their tasks say why."},
	{"berth.client.data_dir.size_bytes", "Bytes of the file system that the data_dir is on."},
	{"berth.client.data_dir.used_bytes", "Bytes of it that are used."},
	{"berth.client.data_dir.available_bytes", "Bytes of it that the agent may still use."},
	{"berth.client.volume.age_seconds", "Seconds since the volume was measured on the node."},
	{"berth.client.volume.total_bytes", "Bytes of the volume's file system, or of its blocks."},
	{"berth.client.volume.used_bytes", "Bytes of the volume that are used."},
	{"berth.client.volume.available_bytes", "Bytes of the volume that are free for its users."},
	{"berth.client.volume.total_inodes", "Inodes of the volume's file system."},
	{"berth.client.volume.used_inodes", "Inodes of the volume that are used."},
	{"berth.client.volume.available_inodes", "Inodes of the volume that are free."},
	{"berth.client.volume.abnormal", "1: the plugin says that the volume is not well."},
	{"berth.client.task.memory_bytes", memoryHelp},
	{"berth.client.task.memory_rss_bytes", rssHelp},
	{"berth.client.task.memory_max_bytes", mostHelp},
	{"berth.client.task.cpu_seconds", "Seconds of processors that the task has used since it started."},
	{"berth.client.task.throttled_seconds", "Seconds that the task has waited for its share of processors."},
	{"berth.client.task.processes", "Processes and threads of the task."},
	{"nomad.client.allocs.memory.usage", memoryHelp},
	{"nomad.client.allocs.memory.rss", rssHelp},
	{"nomad.client.allocs.memory.cache", "Bytes of files that the task keeps in memory."},
	{"nomad.client.allocs.memory.max_usage", mostHelp},
	{"nomad.client.allocs.cpu.throttled_time", "Nanoseconds that the task has waited for its share of processors."},
	{"berth.client.num_allocations", "Allocations that the node has, those that have ended included."},
	{"berth.client.seen_index", "Index of the servers' state that the node's allocations are as of."},
	{"berth.nomad.known_regions", "Regions that the servers know: there is one."},
	{"berth.commands.", "Commands of this name that the leader brought into the log since it started."},
	{"berth.raft_commands.", "Commands of this name that this agent's server brought into the log since it started."},
	{"berth.raft_log.entries", "Entries that were written to the log since the agent started."},
	{"berth.raft_log.bytes", "Bytes of them."},
	{"berth.raft_log.fsyncs", "Times that the log waited for the disk since the agent started."},
	{"berth.http.requests_refused", requestsHelp},
	{"berth.raft.refused_disk_full", writesHelp},
	{"berth.raft.applied_index", "Index of the last entry that the state has."},
	{"berth.raft.commit_index", "Index of the last entry that is certain."},
	{"berth.raft.fsm_pending", "Entries that are certain and wait to be applied."},
	{"berth.raft.last_contact", "0 while this server leads; otherwise it is not told."},
	{"berth.raft.last_log_index", "Index of the last entry in the log."},
	{"berth.raft.last_log_term", "Term of that entry."},
	{"berth.raft.last_snapshot_index", "Index of the last entry in the last snapshot."},
	{"berth.raft.last_snapshot_term", "Term of that entry."},
	{"berth.raft.latest_configuration_index", "Index of the entry that says which servers there are."},
	{"berth.raft.num_peers", "Other servers."},
	{"berth.raft.protocol_version", "Version of the protocol that is spoken between servers."},
	{"berth.raft.protocol_version_min", "Oldest version that could be spoken."},
	{"berth.raft.protocol_version_max", "Newest version that could be spoken."},
	{"berth.raft.snapshot_version_min", "Oldest version of snapshots that can be read."},
	{"berth.raft.snapshot_version_max", "Newest version of snapshots that can be read."},
	{"berth.raft.term", "Term of the present leader: it grows by each election."},
	{"berth.raft.wal_appends", "Times that entries were appended to the log's files since the server started."},
	{"berth.raft.wal_bytes", "Bytes that were appended."},
	{"berth.raft.wal_entries", "Entries that were appended."},
	{"berth.raft.wal_stable_writes", "Times that votes and terms were written."},
	{"berth.runtime.cpu_count", "Processors that the agent may use."},
	{"berth.runtime.goroutines", "Goroutines of the agent."},
	{"berth.runtime.heap_bytes", "Bytes of the agent's heap that are in use."},
}

// help is what a name means. Those of statistics are what agent-info shows under them.
func help(name string) string {
	for _, h := range helps {
		if h.name == name || strings.HasSuffix(h.name, ".") && strings.HasPrefix(name, h.name) {
			return h.text
		}
	}
	group, stat, _ := strings.Cut(strings.TrimPrefix(name, ours), ".")
	return "The statistic " + stat + " of the group " + group + ", as agent-info shows it."
}
