package serving

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/trust"
	"berth/internal/server/permissions"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Admit makes sure of who calls; a server of methods judges every call by it (wire.Server.Admit). A node speaks for
// itself alone, and calls nothing that is not a node's, but for a person; a server passes on what it has made sure of
// itself. What comes from within this process, and is for no person, is this program's own.
//
// What a person may is judged where the call is answered (Judge): a server that does not lead may not have heard yet of
// the person's token.
func Admit(ctx context.Context, method string, req any) error {
	who, known := wire.Caller(ctx)
	passed := len(wire.Relays(ctx)) > 0 // only a server is believed that it passes something on
	if _, person := wire.PersonOf(ctx); person && !passed {
		switch {
		case permissions.ForNobody(method):
			return fault.New(fault.Denied, "", "Permission denied", "this is not for people: "+method)
		case known && permissions.AtServers(method):
			return fault.WithHint(
				fault.New(fault.Denied, "", "Permission denied", method+" is answered by a server's own agent alone, "+
					"and the caller is "+who.String()),
				"run it as root on a server")
		case !known || wire.FromNode(ctx):
			return nil
		}
	}
	if !known || passed {
		return nil
	}
	if _, anyone := req.(interface{ Anyone() }); anyone {
		return nil
	}
	of, ofNode := req.(interface{ Calling() ids.Node })
	switch {
	case !ofNode:
		return fault.New(fault.Denied, "call", method,
			"the caller is "+who.String()+": this is for people, by the API of an agent")
	case who.Role != trust.Node || who.ID != string(of.Calling()):
		return fault.New(fault.Denied, "speak for", fmt.Sprintf("node %q", of.Calling()),
			"the caller is "+who.String())
	}
	return nil
}

// judgement is what was found of the person for whom a call is answered, and of what.
type judgement struct {
	person wire.Person
	method string
	req    any
	passed bool
	caller *permissions.Caller
}

type judgementKey struct{}

// said is a request that says who a person is, for the record.
type said interface{ SaidBy(name string) }

// Judge asks whether the person for whom a call is made may make it, by the state of this server, which answers it. The
// context that it returns tells the handler (Sees). A call that is for no person was admitted, and needs no more.
func Judge(ctx context.Context, store *state.Store, method string, req any) (context.Context, error) {
	person, is := wire.PersonOf(ctx)
	if !is {
		return ctx, nil
	}
	j := &judgement{person: person, method: method, req: req, passed: len(wire.Relays(ctx)) > 0}
	if err := j.again(store.Snapshot(), nil); err != nil {
		return ctx, err
	}
	if r, says := req.(said); says && !person.Local {
		r.SaidBy(j.caller.Name)
	}
	return context.WithValue(ctx, judgementKey{}, j), nil
}

func (j *judgement) again(s *state.Snap, w *state.Watch) error {
	v, err := permissions.Judge(s, w, j.person, j.method, j.req, j.passed, time.Now())
	if err == nil {
		j.caller = v
	}
	return err
}

// Again judges once more, while a read goes on, by what the state says by now.
func Again(ctx context.Context, s *state.Snap, w *state.Watch) error {
	j, is := ctx.Value(judgementKey{}).(*judgement)
	if !is {
		return nil
	}
	return j.again(s, w)
}

// Expires is when the caller's token is good no longer, as it was when he was judged last; zero: it does not expire.
func Expires(ctx context.Context) time.Time {
	j, is := ctx.Value(judgementKey{}).(*judgement)
	if !is || j.caller == nil {
		return time.Time{}
	}
	return j.caller.Expires
}

// Sees says of namespaces whether the caller may see what is in them, by one of the capabilities. It is good for one
// look at the state.
func Sees(ctx context.Context, any ...acl.Capability) func(ids.Namespace) bool {
	known := map[ids.Namespace]bool{}
	return func(ns ids.Namespace) bool {
		sees, asked := known[ns]
		if !asked {
			sees = SeesOn(ctx, acl.Namespace, string(ns), any...)
			known[ns] = sees
		}
		return sees
	}
}

// SeesOn says of what a kind of rules is about whether the caller may see it, by one of the capabilities.
func SeesOn(ctx context.Context, kind acl.Kind, name string, any ...acl.Capability) bool {
	j, is := ctx.Value(judgementKey{}).(*judgement)
	return !is || slices.ContainsFunc(any, func(c acl.Capability) bool {
		return j.caller.Rules.AllowsOn(kind, name, c)
	})
}

// SeesVariable says whether the caller may do something with a variable.
func SeesVariable(ctx context.Context, ns ids.Namespace, path string, c acl.Capability) bool {
	j, is := ctx.Value(judgementKey{}).(*judgement)
	return !is || j.caller.MayVariable(ns, path, c)
}

// SeesNamespace says whether the caller may do anything in a namespace.
func SeesNamespace(ctx context.Context, ns ids.Namespace) bool {
	j, is := ctx.Value(judgementKey{}).(*judgement)
	return !is || j.caller.Rules.Sees(string(ns))
}

// Allowed answers PersonAllowed: whoever may not was refused before.
func Allowed(ctx context.Context, _ *wire.PersonAllowedRequest) (*wire.PersonAllowedReply, error) {
	j, is := ctx.Value(judgementKey{}).(*judgement)
	if !is {
		return &wire.PersonAllowedReply{Name: "the program itself"}, nil
	}
	return &wire.PersonAllowedReply{
		Name:      j.caller.Name,
		Anonymous: j.caller.Anonymous,
		Powerless: j.caller.Powerless(),
	}, nil
}

// judged has a handler answer for whom it may. Of what the caller may not hear he gets the answer to an id that is not
// there.
func (b Base) judged(ctx context.Context, c *call) error {
	judged, err := Judge(ctx, b.Store, c.method, c.req)
	var unseen *permissions.Unseen
	if errors.As(err, &unseen) {
		of, id, stands := permissions.Stranger(c.req)
		if reflect.TypeOf(of) == reflect.TypeOf(c.req) {
			other := *c
			other.req = of
			return about(b.judged(ctx, &other), stands, id)
		}
	}
	if err != nil {
		return err
	}
	return c.here(judged, c.req)
}

// about puts an id into an error in the place of the one that stood for it.
func about(err error, stands, id string) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	out := *f
	out.Subject = strings.ReplaceAll(f.Subject, stands, id)
	return &out
}
