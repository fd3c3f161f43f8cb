package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/render"
	"berth/internal/model/consul"
)

// Read is what a template reads: JSON of the type that the source has, empty when it is not there, and at which index.
// With another index than 0 it waits, up to so long, until there is a later one.
func (a *Agent) Read(
	ctx context.Context, s render.Source, after uint64, wait time.Duration,
) (text string, index uint64, err error) {
	asked, err := s.Asked()
	if err != nil {
		return "", 0, fault.Wrap(err, fault.Invalid, "read", s.String())
	}
	r := request{query: url.Values{}}
	if asked.Datacenter != "" {
		r.query.Set("dc", asked.Datacenter)
	}
	var out any
	switch s.Kind {
	case render.ConsulKey:
		out, index, err = a.key(ctx, r, asked, after, wait)
	case render.ConsulKeys:
		out, index, err = a.keys(ctx, r, asked, after, wait)
	case render.ConsulService:
		out, index, err = a.instances(ctx, r, asked, after, wait)
	case render.ConsulServices:
		out, index, err = a.names(ctx, r, after, wait)
	default:
		return "", 0, fault.New(fault.Unsupported, "read", s.String(), "Consul is not asked for such")
	}
	if fault.Has(err, fault.NotFound) {
		return "", index, nil
	}
	if err != nil {
		return "", 0, fault.Note(err, "read", s.String())
	}
	data, err := json.Marshal(out)
	return string(data), index, fault.Wrap(err, fault.Internal, "encode", s.String())
}

// pairShape is a key as Consul writes it.
type pairShape struct {
	Key   string
	Value []byte // base64 in JSON

	CreateIndex, ModifyIndex, Flags uint64
}

func (a *Agent) key(ctx context.Context, r request, of render.Asked, after uint64, wait time.Duration) (
	string, uint64, error,
) {
	var reply []pairShape
	r.path, r.into = "/v1/kv/"+escaped(of.Name), &reply
	index, err := a.later(ctx, r, after, wait)
	if err != nil || len(reply) == 0 {
		return "", index, err
	}
	return string(reply[0].Value), index, nil
}

// keys are those below a path, which are asked for with its slash: others may begin with the same letters.
func (a *Agent) keys(ctx context.Context, r request, of render.Asked, after uint64, wait time.Duration) (
	[]render.Pair, uint64, error,
) {
	prefix := of.Name
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	var reply []pairShape
	r.path, r.into = "/v1/kv/"+escaped(prefix), &reply
	r.query.Set("recurse", "")
	index, err := a.later(ctx, r, after, wait)
	if err != nil && !fault.Has(err, fault.NotFound) {
		return nil, 0, err
	}
	out := make([]render.Pair, 0, len(reply))
	for _, p := range reply {
		out = append(out, render.Pair{
			Key:         strings.TrimPrefix(p.Key, prefix),
			Path:        p.Key,
			Value:       string(p.Value),
			CreateIndex: p.CreateIndex,
			ModifyIndex: p.ModifyIndex,
			Flags:       p.Flags,
		})
	}
	return out, index, nil
}

// escaped is a path of keys as it stands in an address.
func escaped(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// entryShape is an instance of a service with its node and checks, as Consul writes it.
type entryShape struct {
	Node struct {
		ID, Node, Address string

		Meta map[string]string
	}
	Service shape
	Checks  []struct{ CheckID, Status string }
}

func (a *Agent) instances(ctx context.Context, r request, of render.Asked, after uint64, wait time.Duration) (
	[]render.Found, uint64, error,
) {
	var reply []entryShape
	r.path, r.into = "/v1/health/service/"+url.PathEscape(of.Name), &reply
	if of.Tag != "" {
		r.query.Set("tag", of.Tag)
	}
	index, err := a.later(ctx, r, after, wait)
	if err != nil {
		return nil, 0, err
	}
	out := []render.Found{}
	for _, e := range reply {
		status := e.status()
		if of.Statuses != nil && !slices.Contains(of.Statuses, status) {
			continue
		}
		out = append(out, render.Found{
			ID:          e.Service.ID,
			Name:        e.Service.Service,
			Node:        e.Node.Node,
			NodeID:      e.Node.ID,
			NodeAddress: e.Node.Address,
			Status:      status,
			Address:     e.Service.Address,
			Port:        e.Service.Port,
			Tags:        e.Service.Tags,
			ServiceMeta: e.Service.Meta,
			NodeMeta:    e.Node.Meta,
		})
	}
	slices.SortFunc(out, func(x, y render.Found) int {
		return cmp.Or(strings.Compare(x.Node, y.Node), strings.Compare(x.ID, y.ID))
	})
	return out, index, nil
}

// status is the worst that a check of an instance has found, or of its node.
func (e *entryShape) status() string {
	order := []string{consul.Passing, consul.Warning, consul.Critical, maintenance}
	worst := 0
	for _, c := range e.Checks {
		at := slices.Index(order, c.Status)
		if c.CheckID == "_node_maintenance" || strings.HasPrefix(c.CheckID, "_service_maintenance:") {
			at = len(order) - 1
		}
		worst = max(worst, at)
	}
	return order[worst]
}

// maintenance is the status of an instance that somebody has taken out to work on it.
const maintenance = "maintenance"

func (a *Agent) names(ctx context.Context, r request, after uint64, wait time.Duration) (
	[]render.ServiceName, uint64, error,
) {
	var reply map[string][]string
	r.path, r.into = "/v1/catalog/services", &reply
	index, err := a.later(ctx, r, after, wait)
	if err != nil {
		return nil, 0, err
	}
	out := make([]render.ServiceName, 0, len(reply))
	for _, name := range slices.Sorted(maps.Keys(reply)) {
		out = append(out, render.ServiceName{Name: name, Tags: slices.Sorted(slices.Values(reply[name]))})
	}
	return out, index, nil
}
