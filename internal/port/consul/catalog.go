package consul

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/consul"
)

// Catalog is what the catalog shows of the services of a node, by id, and at which index. With another index than 0 it
// waits, up to so long, until there is a later one.
func (a *Agent) Catalog(
	ctx context.Context, node string, after uint64, wait time.Duration,
) (map[string]consul.Shown, uint64, error) {
	var reply struct{ Services []*shape }
	r := request{path: "/v1/catalog/node-services/" + url.PathEscape(node), into: &reply}
	r.query = url.Values{"consistent": {""}}
	index, err := a.later(ctx, r, after, wait)
	if err != nil {
		return nil, 0, err
	}
	out := make(map[string]consul.Shown, len(reply.Services))
	for _, s := range reply.Services {
		out[s.ID] = s.shown()
	}
	return out, index, nil
}

// Shown is what the catalog shows of one service of a node; nil: it has none of this id.
func (a *Agent) Shown(ctx context.Context, node, id string) (*consul.Shown, error) {
	var reply struct{ Services []*shape }
	r := request{path: "/v1/catalog/node-services/" + url.PathEscape(node), into: &reply}
	r.query = url.Values{"consistent": {""}, "filter": {"ID == " + strconv.Quote(id)}}
	if _, err := a.call(ctx, r); err != nil {
		return nil, err
	}
	for _, s := range reply.Services {
		if s.ID == id {
			out := s.shown()
			return &out, nil
		}
	}
	return nil, nil
}

func (s *shape) shown() consul.Shown {
	return consul.Shown{Name: s.Service, Tags: s.Tags, Mark: s.Meta[consul.MetaMark], Index: s.ModifyIndex}
}

// Found is what the checks of a node have found by the catalog, by id, and at which index; it waits as Catalog does.
func (a *Agent) Found(
	ctx context.Context, node string, after uint64, wait time.Duration,
) (map[string]State, uint64, error) {
	var reply []struct{ CheckID, ServiceID, Status, Output string }
	r := request{path: "/v1/health/node/" + url.PathEscape(node), query: url.Values{}, into: &reply}
	index, err := a.later(ctx, r, after, wait)
	out := make(map[string]State, len(reply))
	for _, c := range reply {
		out[c.CheckID] = State{Service: c.ServiceID, Status: c.Status, Output: c.Output}
	}
	return out, index, err
}

// later reads what is at a later index than one, or with 0 what there is, and returns its index: that of what is not
// there, too.
func (a *Agent) later(ctx context.Context, r request, after uint64, wait time.Duration) (uint64, error) {
	if after > 0 {
		// Consul adds up to a sixteenth of the time.
		r.timeout = wait + wait/16 + a.timeout
		r.query.Set("index", strconv.FormatUint(after, 10))
		r.query.Set("wait", strconv.FormatInt(wait.Milliseconds(), 10)+"ms")
	}
	header, err := a.call(ctx, r)
	if err != nil && !fault.Has(err, fault.NotFound) {
		return 0, err
	}
	index, wrong := strconv.ParseUint(header.Get("X-Consul-Index"), 10, 64)
	return index, cmp.Or(err, fault.Wrap(wrong, fault.Internal, "read X-Consul-Index of", a.shown))
}

// serfHealth is the check by which agents of Consul say of each other that they live.
const serfHealth = "serfHealth"

// Gone reports whether the agent of Consul of a node is known not to live: the others of its cluster do not hear it. Of
// a node that the catalog does not know, or knows by no agent, that is not known.
func (a *Agent) Gone(ctx context.Context, node string) (bool, error) {
	var reply []struct{ CheckID, Status string }
	r := request{path: "/v1/health/node/" + url.PathEscape(node), query: url.Values{"consistent": {""}}, into: &reply}
	if _, err := a.call(ctx, r); err != nil {
		return false, err
	}
	for _, c := range reply {
		if c.CheckID == serfHealth {
			return c.Status == consul.Critical, nil
		}
	}
	return false, nil
}

// Forget takes a service of a node with its checks out of the catalog itself, for an agent that cannot, if the catalog
// has it as it was when it was read: one that was registered anew since is a conflict, and stays.
func (a *Agent) Forget(ctx context.Context, node, id string, read consul.Shown) error {
	type service struct {
		ID          string
		Service     string // its name, without which Consul refuses all of it
		ModifyIndex uint64
	}
	type operation struct {
		Verb, Node string
		Service    service
	}
	op := operation{Verb: "delete-cas", Node: node, Service: service{id, read.Name, read.Index}}
	_, err := a.call(ctx, request{
		method: http.MethodPut,
		path:   "/v1/txn",
		body:   []any{struct{ Service operation }{op}},
	})
	return fault.Note(err, "take out of the catalog", "service "+id)
}
