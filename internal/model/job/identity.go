package job

import "time"

// WorkloadIdentity is a signed statement of who a task is, which the task shows to others; or of what service it is
// that somebody speaks for.
type WorkloadIdentity struct {
	Name         string   // DefaultIdentity: the one that Berth itself takes for a token
	Audience     []string // who is meant to believe it
	ChangeMode   string   // what a renewed one does to the task: restart, signal or noop
	ChangeSignal string
	Env          bool // the task has it in its environment
	File         bool // and in a file
	Filepath     string
	TTL          time.Duration // 0: it is good as long as the allocation runs
	// ExtraClaims are said beside what Berth says of the task; ${…} in them stands for what it is.
	ExtraClaims map[string]string `cbor:",omitempty"`
	ServiceName string            `cbor:",omitempty"` // of a service, as the job names it; empty: it is a task's
}

// DefaultIdentity is the name of the identity that every task has.
const DefaultIdentity = "default"

// SchemaIdentities is the number of the cluster from which on jobs may have identity blocks.
const SchemaIdentities = 12

// SchemaClaims is the same for claims of their own.
const SchemaClaims = 14

// SchemaServiceIdentities is the same for identities of services.
const SchemaServiceIdentities = 15
