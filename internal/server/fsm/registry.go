package fsm

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/server/fsm/entry"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Stamp is when a command is applied.
type Stamp = state.Stamp

// Command is one step of the state. Apply reads and writes through tx alone; an error undoes all that it wrote and is
// what the proposer gets. It must not keep its own fields' pointers mutable: what it puts into tx belongs to the state.
type Command interface {
	Apply(tx *state.Tx, st Stamp) (any, error)
}

// Releasing marks commands that release something: they are taken even when the disk is nearly full.
type Releasing interface{ Releases() bool }

// Needing marks commands that, by what they hold, need a higher schema of the cluster than their kind does.
type Needing interface{ Needs() uint64 }

// Proposer brings a command into the log and returns what its Apply returned and the index at which it was applied.
type Proposer interface {
	Propose(ctx context.Context, cmd Command) (any, uint64, error)
}

// Propose proposes a command whose Apply returns an R.
func Propose[R any](ctx context.Context, p Proposer, cmd Command) (R, uint64, error) {
	var zero R
	v, index, err := p.Propose(ctx, cmd)
	if err != nil {
		return zero, index, err
	}
	r, ok := v.(R)
	if !ok {
		return zero, index,
			fault.New(fault.Internal, "propose", reflect.TypeOf(cmd).String(),
				fmt.Sprintf("its result is a %T, not a %T", v, zero))
	}
	return r, index, nil
}

// Kind describes a command to the registry.
type Kind struct {
	Name   string
	Schema uint64 // of the cluster, from which on it may be proposed
	Owner  string // the package that proposes it
	New    func() Command
}

var (
	byName = map[string]Kind{}
	byType = map[reflect.Type]Kind{}
)

// Register files a command type. It is called from the init function beside the type.
func Register[T any, P interface {
	*T
	Command
}](name string, schema uint64, owner string) {
	k := Kind{Name: name, Schema: schema, Owner: owner, New: func() Command { return P(new(T)) }}
	if _, twice := byName[name]; twice {
		panic("fsm: two commands named " + name)
	}
	byName[name] = k
	byType[reflect.TypeFor[P]()] = k
}

// Kinds lists the commands by name.
func Kinds() []Kind {
	out := make([]Kind, 0, len(byName))
	for _, k := range byName {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Kind) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// KindOf describes a command.
func KindOf(cmd Command) (Kind, bool) {
	k, ok := byType[reflect.TypeOf(cmd)]
	return k, ok
}

// Encode writes a command as it goes into the log; now is the proposer's time.
func Encode(cmd Command, now time.Time) ([]byte, error) {
	k, ok := KindOf(cmd)
	if !ok {
		return nil, fault.New(fault.Internal, "encode command", reflect.TypeOf(cmd).String(), "it is not registered")
	}
	payload, err := wire.Encode(cmd)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "encode command", k.Name)
	}
	return wire.Encode(entry.Entry{Name: k.Name, Schema: k.Schema, Time: now.UnixNano(), Payload: payload})
}

// Decode reads a command from the log. It is strict: what this program does not understand is an error.
func Decode(data []byte) (Command, time.Time, error) {
	var e entry.Entry
	if err := wire.DecodeStrict(data, &e); err != nil {
		return nil, time.Time{}, fault.Wrap(err, fault.Internal, "decode a log entry", "")
	}
	k, ok := byName[e.Name]
	if !ok || e.Schema > k.Schema {
		return nil, time.Time{},
			&fault.Error{
				Kind:    fault.Unsupported,
				Op:      "decode command",
				Subject: fmt.Sprintf("%q (schema %d)", e.Name, e.Schema),
				Hint:    "a newer Berth wrote this entry; run that version",
			}
	}
	cmd := k.New()
	if err := wire.DecodeStrict(e.Payload, cmd); err != nil {
		return nil, time.Time{}, fault.Wrap(err, fault.Unsupported, "decode command", e.Name)
	}
	return cmd, time.Unix(0, e.Time).UTC(), nil
}
