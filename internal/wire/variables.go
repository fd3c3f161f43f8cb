package wire

import (
	"berth/internal/base/ids"
	"berth/internal/model/variable"
)

// Methods over variables, served by the server half.
var (
	VariableList    = Unary[Query, List[*variable.Variable]]("Variable.List")
	VariableGet     = Unary[Ref[string], VariableReply]("Variable.Get")
	VariablePut     = Unary[VariablePutRequest, VariableWritten]("Variable.Put")
	VariableDelete  = Unary[VariableDeleteRequest, VariableWritten]("Variable.Delete")
	VariableAcquire = Unary[VariableAcquireRequest, VariableWritten]("Variable.Acquire")
	VariableRenew   = Unary[VariableLockRequest, VariableWritten]("Variable.Renew")
	VariableRelease = Unary[VariableLockRequest, VariableWritten]("Variable.Release")
)

// VariableReply is a variable with what it holds, or nil when there is none.
type VariableReply struct {
	Meta
	Item  *variable.Variable
	Items Secrets
}

// VariablePutRequest writes what a variable holds.
type VariablePutRequest struct {
	Namespace ids.Namespace
	Path      string
	Items     Secrets
	Check     *uint64 // the index that has been seen, 0 for no variable; nil: whatever is there
	Lock      string  // by which it is written; empty: by none
	By        string  // as the API knows them
}

// VariableDeleteRequest removes a variable.
type VariableDeleteRequest struct {
	Namespace ids.Namespace
	Path      string
	Check     *uint64
	Lock      string
	By        string
}

// VariableAcquireRequest takes the lock of a variable, which it makes if there is none.
type VariableAcquireRequest struct {
	Namespace ids.Namespace
	Path      string
	Items     Secrets       // none: what it holds stays
	Lock      variable.Lock // its id is of a lock that is held already; empty: of none
	By        string
}

// VariableLockRequest is about a lock that somebody holds.
type VariableLockRequest struct {
	Namespace ids.Namespace
	Path      string
	Lock      string
	By        string
}

// VariableWritten is what became of a write. In a conflict nothing was written, and Item is what is there.
type VariableWritten struct {
	Index    uint64
	Conflict string // why; empty: it was written
	Item     *variable.Variable
	Items    Secrets // none where the caller may not read them
	Hidden   bool    // they are left out for that
}
