// Package callers owns for whom the requests to the HTTP API are: it marks the calls that are made for them, and says
// what routes need that are answered without the servers. Only httpapi imports it.
package callers

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/conns"
	"berth/internal/model/acl"
	"berth/internal/wire"
)

// Caller is for whom a request is.
type Caller struct {
	wire.Person
	Record string // who it is, for the record
	Known  bool   // it is a local user, or the servers know the token
	task   bool   // it came by the socket of a task
}

type callerKey struct{}

// Of is for whom a request is that a guard has admitted.
func Of(r *http.Request) Caller {
	c, _ := r.Context().Value(callerKey{}).(Caller)
	return c
}

// Admit has a guard look at a request, and marks the calls that are made for it. Whoever the servers do not know is let
// in for what everybody may do; his connection is the first to give way to others, and ends with a refusal.
func Admit(guard access.Guard, servers wire.Conn, r *http.Request) (*http.Request, error) {
	person, err := guard.Admit(r)
	if err != nil {
		return nil, err
	}
	ctx := wire.For(r.Context(), person)
	c := Caller{Person: person, Record: person.Name, Known: person.Local}
	_, c.task = guard.(access.Task)
	switch {
	case !c.task && Own(r):
		c.Record, c.Known = "root of this machine", true
	case !person.Local:
		c.Record = unknown
		who, err := wire.PersonAllowed.Call(ctx, servers, &wire.PersonAllowedRequest{})
		switch {
		case err == nil && who.Powerless && changes(r):
			return nil, powerless(who)
		case err == nil:
			c.Record, c.Known = who.Name, !who.Anonymous
		case changes(r) || c.task: // a task whose identity is not believed hears nothing at all
			return nil, err
		}
	}
	if c.Known {
		conns.Admitted(r)
	}
	return r.WithContext(context.WithValue(ctx, callerKey{}, c)), nil
}

// powerless refuses who may change nothing.
func powerless(who *wire.PersonAllowedReply) error {
	if who.Anonymous {
		return fault.WithHint(fault.New(fault.Denied, "", "Permission denied", "the request shows no token"),
			"give one with -token, BERTH_TOKEN or NOMAD_TOKEN")
	}
	return fault.WithHint(fault.New(fault.Denied, "", "Permission denied", who.Name+" may change nothing"),
		"a policy of the token, or of the job (berth acl policy apply -job JOB NAME FILE), says what it may")
}

// Own tells a request about the servers that the agent's node asks, by the agent's socket. That is root's and the
// agent's user's, who could as well write them into its configuration; and who has to name others, because none
// answers, can ask none whether he may (docs/adr/0071-root-of-a-node-is-not-the-clusters.md).
func Own(r *http.Request) bool {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return !Of(r).task && at != nil && at.Network() == "unix" && r.URL.Path == "/v1/agent/servers"
}

// unknown is who shows a token that the servers do not know, or cannot be asked for.
const unknown = "an unknown token"

// Named is for whom the calls of a context are, for the record, and whether the servers know him.
func Named(ctx context.Context, servers wire.Conn) (name string, known bool) {
	if who, err := wire.PersonAllowed.Call(ctx, servers, &wire.PersonAllowedRequest{}); err == nil {
		return who.Name, !who.Anonymous
	}
	return unknown, false
}

// changes tells requests that change something. Their bodies are not read of whoever may change nothing at all; but the
// first token is for who has none.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.URL.Path != "/v1/acl/bootstrap"
}

// Showing is the context of a request whose token comes in the first message of a session: {"auth_token": "…"}.
// Browsers cannot send it in a header.
func Showing(ctx context.Context, r *http.Request, message []byte) (context.Context, error) {
	var hello struct {
		Token string `json:"auth_token"`
	}
	if err := json.Unmarshal(message, &hello); err != nil {
		return nil, fmt.Errorf("the first message is no handshake: %w", err)
	}
	if c := Of(r); c.Local || !c.Token.Empty() || hello.Token == "" {
		return ctx, nil
	}
	return wire.For(ctx, wire.Person{Token: redact.New(hello.Token)}), nil
}

// Permit asks the servers whether whom a context is of may have what an answer of the agent itself needs.
func Permit(ctx context.Context, servers wire.Conn, needs ...wire.Need) error {
	_, err := wire.PersonAllowed.Call(ctx, servers, &wire.PersonAllowedRequest{Needs: needs})
	return err
}

// Asks is what a request to a route needs that is answered without the servers, or with what they tell everybody.
type Asks func(r *http.Request, ns ids.Namespace) []wire.Need

// needs is a capability for what has no names.
func needs(kind acl.Kind, any ...acl.Capability) Asks {
	return func(*http.Request, ids.Namespace) []wire.Need { return []wire.Need{{Kind: kind, Any: any}} }
}

// needsIn is one of the capabilities in the namespace of the request. There is nothing of it in all of them together.
func needsIn(any ...acl.Capability) Asks {
	return func(_ *http.Request, ns ids.Namespace) []wire.Need {
		if ns == wire.AllNamespaces {
			return nil
		}
		return []wire.Need{{Kind: acl.Namespace, Name: string(ns), Any: any}}
	}
}

// somewhere is one of the capabilities in some namespace: the body says in which.
func somewhere(any ...acl.Capability) Asks {
	return func(*http.Request, ids.Namespace) []wire.Need {
		return []wire.Need{{Kind: acl.Namespace, Any: any, Somewhere: true}}
	}
}

// What those who send routes a long body need in any case.
var (
	Registers = somewhere(acl.RegisterJob)
	Plans     = somewhere(acl.PlanJob)
	Validates = somewhere(acl.ParseJob, acl.ReadJob, acl.PlanJob, acl.RegisterJob)
	Writes    = somewhere(acl.CSIWriteVolume)
)

// WritesPools is to write some node pool: the body says which.
func WritesPools(*http.Request, ids.Namespace) []wire.Need {
	return []wire.Need{{Kind: acl.NodePool, Any: []acl.Capability{acl.Write}, Somewhere: true}}
}

// What routes need.
var (
	All   = needs(wire.Management, acl.Write)
	Agent = needs(acl.Agent, acl.Read)
	// AgentWrite is to change how the agent itself does its work.
	AgentWrite = needs(acl.Agent, acl.Write)

	Nodes    = needs(acl.Node, acl.Read)
	Operator = needs(acl.Operator, acl.Read)
	Jobs     = needsIn(acl.ReadJob)
	Parse    = needsIn(acl.ParseJob, acl.PlanJob, acl.RegisterJob)
	Volumes  = needsIn(acl.HostVolumeRead, acl.CSIReadVolume)
)

// Pool is to read the node pool that the path names.
func Pool(r *http.Request, _ ids.Namespace) []wire.Need {
	return []wire.Need{{Kind: acl.NodePool, Name: r.PathValue("pool"), Any: []acl.Capability{acl.Read}}}
}

// Variable is to write the variable that the path names.
func Variable(r *http.Request, ns ids.Namespace) []wire.Need {
	return []wire.Need{{
		Kind:     acl.Namespace,
		Name:     string(ns),
		Any:      []acl.Capability{acl.Write},
		Variable: r.PathValue("id"),
	}}
}

// VolumeList is for those of directories of nodes; those of CSI the servers list.
func VolumeList(r *http.Request, ns ids.Namespace) []wire.Need {
	if r.URL.Query().Get("type") == "csi" {
		return nil
	}
	return needsIn(acl.HostVolumeRead, acl.CSIListVolume)(r, ns)
}

// Refused ends the connection of whoever is not known and was refused.
func Refused(w http.ResponseWriter, r *http.Request, err error) {
	if fault.Has(err, fault.Denied) && !Of(r).Known {
		conns.Refused(w, r)
	}
}

// Namespace is the namespace that a request names in its query.
func Namespace(r *http.Request) ids.Namespace {
	if ns := r.URL.Query().Get("namespace"); ns != "" {
		return ids.Namespace(ns)
	}
	return ids.DefaultNamespace
}
