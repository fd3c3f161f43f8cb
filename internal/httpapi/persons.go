package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/conns"
	"berth/internal/model/acl"
	"berth/internal/wire"
)

// caller is for whom a request is.
type caller struct {
	wire.Person
	name  string // for the record
	known bool   // it is a local user, or the servers know the token
}

type callerKey struct{}

// callerOf is for whom a request is that a guard has admitted.
func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

// admit has a guard look at a request, and marks the calls that are made for it. Whoever the servers do not know is let
// in for what everybody may do; his connection is the first to give way to others, and ends with a refusal.
func (s *Server) admit(guard access.Guard, r *http.Request) (*http.Request, error) {
	person, err := guard.Admit(r)
	if err != nil {
		return nil, err
	}
	ctx := wire.For(r.Context(), person)
	c := caller{Person: person, name: person.Name, known: person.Local}
	if !person.Local {
		c.name = "an unknown token"
		who, err := wire.PersonAllowed.Call(ctx, s.cfg.Servers, &wire.PersonAllowedRequest{})
		switch {
		case err == nil && who.Powerless && changes(r):
			return nil, fault.WithHint(fault.New(fault.Denied, "", "Permission denied", "the request shows no token"),
				"give one with -token, BERTH_TOKEN or NOMAD_TOKEN")
		case err == nil:
			c.name, c.known = who.Name, !who.Anonymous
		case changes(r):
			return nil, err
		}
	}
	if c.known {
		conns.Admitted(r)
	}
	return r.WithContext(context.WithValue(ctx, callerKey{}, c)), nil
}

// changes tells requests that change something. Their bodies are not read of whoever may change nothing at all; but the
// first token is for who has none.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.URL.Path != "/v1/acl/bootstrap"
}

// showing is the context of a request whose token comes in the first message of a session: {"auth_token": "…"}. Browsers
// cannot send it in a header.
func (r *request) showing(ctx context.Context, message []byte) (context.Context, error) {
	var hello struct {
		Token string `json:"auth_token"`
	}
	if err := json.Unmarshal(message, &hello); err != nil {
		return nil, badRequest("the first message is no handshake: " + err.Error())
	}
	if c := callerOf(r.Request); c.Local || !c.Token.Empty() || hello.Token == "" {
		return ctx, nil
	}
	return wire.For(ctx, wire.Person{Token: redact.New(hello.Token)}), nil
}

// permit asks the servers whether the request may have what an answer of the agent itself needs.
func (s *Server) permit(r *request, needs ...wire.Need) error {
	_, err := wire.PersonAllowed.Call(r.Context(), s.cfg.Servers, &wire.PersonAllowedRequest{Needs: needs})
	return err
}

// asks is what a route needs that is answered without the servers, or with what they tell everybody.
type asks func(*request) []wire.Need

// needs is a capability for what has no names.
func needs(kind acl.Kind, any ...acl.Capability) asks {
	return func(*request) []wire.Need { return []wire.Need{{Kind: kind, Any: any}} }
}

// needsIn is one of the capabilities in the namespace of the request. There is nothing of it in all of them together.
func needsIn(any ...acl.Capability) asks {
	return func(r *request) []wire.Need {
		if r.ns == wire.AllNamespaces {
			return nil
		}
		return []wire.Need{{Kind: acl.Namespace, Name: string(r.ns), Any: any}}
	}
}

// What routes need.
var (
	needsAll      = needs(wire.Management, acl.Write)
	needsAgent    = needs(acl.Agent, acl.Read)
	needsNodes    = needs(acl.Node, acl.Read)
	needsOperator = needs(acl.Operator, acl.Read)
	needsJobs     = needsIn(acl.ReadJob)
	needsToParse  = needsIn(acl.ParseJob, acl.PlanJob, acl.RegisterJob)
	needsScaling  = needsIn(acl.ListScalingPolicies, acl.ReadScalingPolicy)
	needsVolumes  = needsIn(acl.HostVolumeRead, acl.CSIReadVolume)
)

// needsPool is to read the node pool that the path names.
func needsPool(r *request) []wire.Need { return poolNeeds(r.PathValue("pool")) }

func poolNeeds(pool string) []wire.Need {
	return []wire.Need{{Kind: acl.NodePool, Name: pool, Any: []acl.Capability{acl.Read}}}
}

// needsToListVolumes is for those of directories of nodes; those of CSI the servers list.
func needsToListVolumes(r *request) []wire.Need {
	if r.arg("type") == "csi" {
		return nil
	}
	return needsIn(acl.HostVolumeRead, acl.CSIListVolume)(r)
}

// refusedTo ends the connection of whoever is not known and was refused.
func refusedTo(w http.ResponseWriter, r *http.Request, err error) {
	if fault.Has(err, fault.Denied) && !callerOf(r).known {
		conns.Refused(w, r)
	}
}
