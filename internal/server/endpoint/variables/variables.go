// Package variables owns the answers about variables and their locks. Who may ask is judged before; what of a variable
// somebody may see, here. Only package endpoint constructs it.
package variables

import (
	"context"
	"iter"
	"log/slog"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/model/variable"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/variables"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Secrets seal what variables hold, and open it.
type Secrets interface {
	Seal(name string, m redact.Map) ([]byte, error)
	Open(s *state.Snap, name string, sealed []byte) (redact.Map, error)
}

// Locks hear of renewals.
type Locks interface {
	Renew(at variables.At, lock string) (variable.Conflict, error)
}

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer fsm.Proposer
	Secrets  Secrets
	Locks    Locks
	Most     variable.Bounds // of a namespace
	Log      *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct {
	cfg       Config
	admission admission
}

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg: cfg, admission: admission{bounds: cfg.Most}} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.VariableList, e.list)
	serving.Unary(e.cfg.Base, s, wire.VariableGet, e.get)
	serving.Unary(e.cfg.Base, s, wire.VariablePut, e.put)
	serving.Unary(e.cfg.Base, s, wire.VariableDelete, e.remove)
	serving.Unary(e.cfg.Base, s, wire.VariableAcquire, e.acquire)
	serving.Unary(e.cfg.Base, s, wire.VariableRenew, e.renew)
	serving.Unary(e.cfg.Base, s, wire.VariableRelease, e.release)
}

// visible is a variable as the caller may see it. Who knows the id of its lock has the lock: it is for who has shown
// it, and for those who run the cluster, who may have to take it from a holder that does not come back.
func visible(v *variable.Variable, shown string, operator bool) *variable.Variable {
	if v == nil || v.Lock == nil || v.Holds(shown) || operator {
		return v
	}
	out := *v
	lock := *v.Lock
	lock.ID = ""
	out.Lock = &lock
	return &out
}

// operator tells whether the caller may write what is the operators'.
func operator(ctx context.Context) bool { return serving.SeesOn(ctx, acl.Operator, "", acl.Write) }

// list shows the variables that the caller may list, without what they hold.
func (e *Endpoints) list(ctx context.Context, req *wire.Query) (*wire.List[*variable.Variable], error) {
	out := &wire.List[*variable.Variable]{}
	return out, e.cfg.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		var all []*variable.Variable
		whole := operator(ctx)
		for v := range Under(s, w, req.Namespace, req.Prefix) {
			if serving.SeesVariable(ctx, v.Namespace, v.Path, acl.List) {
				all = append(all, visible(v, "", whole))
			}
		}
		out.Items, out.NextToken = wire.Cut(req.Page, all, (*variable.Variable).Key)
		return s.TableIndex(state.Variables), nil
	})
}

// Under yields the variables of a namespace, or of all, whose paths begin with a prefix.
func Under(s *state.Snap, w *state.Watch, in ids.Namespace, prefix string) iter.Seq[*variable.Variable] {
	if in != wire.AllNamespaces {
		return s.Variables(w, in, prefix)
	}
	return func(yield func(*variable.Variable) bool) {
		for n := range s.Namespaces(w, "") {
			for v := range s.Variables(w, n.Name, prefix) {
				if !yield(v) {
					return
				}
			}
		}
	}
}

func (e *Endpoints) get(ctx context.Context, req *wire.Ref[string]) (*wire.VariableReply, error) {
	out := &wire.VariableReply{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		v := s.Variable(w, req.Namespace, req.ID)
		out.Item = visible(v, "", operator(ctx))
		if v == nil {
			return s.ReadIndex(state.Variables), nil
		}
		items, err := Items(s, e.cfg.Secrets, v)
		out.Items = items
		return s.ReadIndex(state.Variables, v.ModifyIndex), err
	})
}

// Items opens what a variable holds.
func Items(s *state.Snap, secrets Secrets, v *variable.Variable) (wire.Secrets, error) {
	name := variable.SealedName(v.Namespace, v.Path)
	sealed := s.Secret(nil, name)
	if sealed == nil {
		return wire.Secrets{},
			fault.New(fault.Internal, "open", variable.Name(v.Path), "what it holds is not in the state")
	}
	m, err := secrets.Open(s, name, sealed.Data)
	return wire.Seal(m), err
}

// sealed checks and seals what a path is to hold.
func (e *Endpoints) sealed(at variables.At, items wire.Secrets) ([]byte, error) {
	if err := variable.ValidItems(at.Path, items.Values); err != nil {
		return nil, err
	}
	return e.cfg.Secrets.Seal(variable.SealedName(at.Namespace, at.Path), items.Open())
}

// at checks where somebody writes.
func at(ns ids.Namespace, path string) (variables.At, error) {
	if ns == wire.AllNamespaces {
		return variables.At{}, fault.WithHint(fault.New(fault.Invalid, "write", variable.Name(path),
			"it lies in one namespace, not in all of them"), "name it: -namespace NAME")
	}
	return variables.At{Namespace: ns, Path: path}, variable.ValidPath(path)
}

func (e *Endpoints) put(ctx context.Context, req *wire.VariablePutRequest) (*wire.VariableWritten, error) {
	where, err := at(req.Namespace, req.Path)
	if err != nil {
		return nil, err
	}
	if len(req.Items.Values) == 0 {
		return nil, fault.WithHint(fault.New(fault.Invalid, "write", variable.Name(req.Path), "it is to hold nothing"),
			"give it an item, or delete it: berth var purge "+req.Path)
	}
	sealed, err := e.sealed(where, req.Items)
	if err != nil {
		return nil, err
	}
	done, err := e.admission.enter(e.cfg.Store, where, len(sealed))
	if err != nil {
		return nil, err
	}
	defer done()
	return e.write(ctx, writing{where, "written", req.By, req.Lock},
		&variables.Put{At: where, Sealed: sealed, Check: req.Check, Lock: req.Lock})
}

func (e *Endpoints) remove(ctx context.Context, req *wire.VariableDeleteRequest) (*wire.VariableWritten, error) {
	where, err := at(req.Namespace, req.Path)
	if err != nil {
		return nil, err
	}
	return e.write(ctx, writing{where, "deleted", req.By, req.Lock},
		&variables.Delete{At: where, Check: req.Check, Lock: req.Lock})
}

func (e *Endpoints) acquire(ctx context.Context, req *wire.VariableAcquireRequest) (*wire.VariableWritten, error) {
	where, err := at(req.Namespace, req.Path)
	if err != nil {
		return nil, err
	}
	cmd := &variables.Acquire{At: where, Lock: req.Lock, Again: req.Lock.ID != ""}
	if err := cmd.Lock.Validate(req.Path); err != nil {
		return nil, err
	}
	if !cmd.Again {
		cmd.Lock.ID = ids.New()
	}
	if cmd.Empty, err = e.sealed(where, wire.Secrets{Values: map[string]string{}}); err != nil {
		return nil, err
	}
	if len(req.Items.Values) > 0 {
		if cmd.Sealed, err = e.sealed(where, req.Items); err != nil {
			return nil, err
		}
	}
	if cmd.Sealed != nil || e.cfg.Store.Snapshot().Variable(nil, where.Namespace, where.Path) == nil {
		done, err := e.admission.enter(e.cfg.Store, where, max(len(cmd.Sealed), len(cmd.Empty)))
		if err != nil {
			return nil, err
		}
		defer done()
	}
	out, err := e.write(ctx, writing{where, "locked", req.By, cmd.Lock.ID}, cmd)
	if err != nil || out.Conflict != "" || !cmd.Again {
		return out, err
	}
	conflict, err := e.cfg.Locks.Renew(where, cmd.Lock.ID)
	out.Conflict = string(conflict)
	return out, err
}

func (e *Endpoints) release(ctx context.Context, req *wire.VariableLockRequest) (*wire.VariableWritten, error) {
	where, err := at(req.Namespace, req.Path)
	if err != nil {
		return nil, err
	}
	return e.write(ctx, writing{where, "unlocked", req.By, req.Lock}, &variables.Release{At: where, Lock: req.Lock})
}

// renew writes nothing: how long a lock holds is counted by the server that leads.
func (e *Endpoints) renew(ctx context.Context, req *wire.VariableLockRequest) (*wire.VariableWritten, error) {
	where, err := at(req.Namespace, req.Path)
	if err != nil {
		return nil, err
	}
	conflict, err := e.cfg.Locks.Renew(where, req.Lock)
	if err != nil {
		return nil, err
	}
	// One that did not lead any more has heard it for nothing: the next one counts from its own beginning.
	if err := e.cfg.Cluster.Confirm(ctx); err != nil {
		return nil, err
	}
	s := e.cfg.Store.Snapshot()
	v := s.Variable(nil, where.Namespace, where.Path)
	out := &wire.VariableWritten{
		Index:    s.ReadIndex(state.Variables),
		Conflict: string(conflict),
		Item:     visible(v, req.Lock, false),
	}
	if v != nil {
		out.Index = max(out.Index, v.ModifyIndex)
	}
	return out, nil
}

// writing is a write: where, what it does, for whom, and by which lock.
type writing struct {
	variables.At
	done, by, lock string
}

// write brings a command into the log, and shows what became of it.
func (e *Endpoints) write(ctx context.Context, at writing, cmd fsm.Command) (*wire.VariableWritten, error) {
	got, index, err := fsm.Propose[*variables.Outcome](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	out := &wire.VariableWritten{
		Index:    index,
		Conflict: string(got.Conflict),
		Item:     visible(got.Variable, at.lock, false),
	}
	if got.Conflict == "" {
		e.cfg.Log.Info("a variable was "+at.done, "namespace", at.Namespace, logkey.Path, at.Path, "by", at.by)
	}
	if got.Variable == nil || got.Sealed == nil {
		return out, nil
	}
	if out.Hidden = !serving.SeesVariable(ctx, at.Namespace, at.Path, acl.Read); out.Hidden {
		return out, nil
	}
	m, err := e.cfg.Secrets.Open(e.cfg.Store.Snapshot(), variable.SealedName(at.Namespace, at.Path), got.Sealed)
	out.Items = wire.Seal(m)
	return out, err
}
