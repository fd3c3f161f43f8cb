package endpoint

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/acl"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/endpoint/variables"
	"berth/internal/server/state"
	"berth/internal/server/views"
	"berth/internal/wire"
)

func (e *Endpoints) systemGC(ctx context.Context, _ *wire.Empty) (*wire.Written, error) {
	index, err := e.cfg.Collector.Force(ctx)
	if err != nil {
		return nil, err
	}
	return &wire.Written{Index: index}, nil
}

// counts reads no further than it counts: nobody waits for metrics.
func (e *Endpoints) counts(ctx context.Context, req *wire.Query) (*wire.CountsReply, error) {
	out := &wire.CountsReply{}
	return out, e.base.Read(ctx, *req, &out.Meta, func(s *state.Snap, _ *state.Watch) (uint64, error) {
		meta := out.Meta
		*out = *views.Counts(s)
		out.Meta = meta
		return s.Index(), nil
	})
}

func (e *Endpoints) signingKeys(ctx context.Context, req *wire.Query) (*wire.SigningKeysReply, error) {
	out := &wire.SigningKeysReply{}
	return out, e.base.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Keys = nil
		for k := range s.SigningKeys(w) {
			out.Keys = append(out.Keys, wire.SigningKey{
				ID:          k.ID,
				Algorithm:   k.Algorithm,
				Public:      k.Public,
				RSA:         k.RSA,
				Created:     k.Created,
				CreateIndex: k.CreateIndex,
				ModifyIndex: k.ModifyIndex,
			})
		}
		return s.TableIndex(state.SigningKeys), nil
	})
}

// matchesPerContext bounds what a search lists of one kind.
const matchesPerContext = 20

// searchAll asks for every kind.
const searchAll = "all"

// contexts lists the kinds that can be searched, with how the ids are found of what the caller may see.
var contexts = []struct {
	name string
	find func(context.Context, *state.Snap, *wire.SearchRequest) iter.Seq[string]
}{
	{"allocs", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		sees := serving.Sees(ctx, acl.ReadJob)
		return func(yield func(string) bool) {
			for a := range s.Allocs(nil, serving.UUIDPrefix(r.Prefix)) {
				if within(r.Namespace, a.Namespace) && sees(a.Namespace) && !yield(string(a.ID)) {
					return
				}
			}
		}
	}},
	{"deployment", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		sees := serving.Sees(ctx, acl.ReadJob)
		return func(yield func(string) bool) {
			for d := range s.Deployments(nil, serving.UUIDPrefix(r.Prefix)) {
				if within(r.Namespace, d.Namespace) && sees(d.Namespace) && !yield(string(d.ID)) {
					return
				}
			}
		}
	}},
	{"evals", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		sees := serving.Sees(ctx, acl.ReadJob)
		return func(yield func(string) bool) {
			for e := range s.Evals(nil, serving.UUIDPrefix(r.Prefix)) {
				if within(r.Namespace, e.Namespace) && sees(e.Namespace) && !yield(string(e.ID)) {
					return
				}
			}
		}
	}},
	{"jobs", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		sees := serving.Sees(ctx, acl.ListJobs, acl.ReadJob)
		return func(yield func(string) bool) {
			for j := range s.Jobs(nil, r.Namespace, r.Prefix) {
				if sees(j.Namespace) && !yield(string(j.ID)) {
					return
				}
			}
		}
	}},
	{"namespaces", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		return func(yield func(string) bool) {
			for n := range s.Namespaces(nil, r.Prefix) {
				if serving.SeesNamespace(ctx, n.Name) && !yield(string(n.Name)) {
					return
				}
			}
		}
	}},
	{"node_pools", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		return func(yield func(string) bool) {
			for p := range s.NodePools(nil, r.Prefix) {
				if serving.SeesOn(ctx, acl.NodePool, p.Name, acl.Read) && !yield(p.Name) {
					return
				}
			}
		}
	}},
	{"nodes", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		return func(yield func(string) bool) {
			for n := range s.Nodes(nil, serving.UUIDPrefix(r.Prefix)) {
				if !serving.SeesOn(ctx, acl.Node, "", acl.Read) || !yield(string(n.ID)) {
					return
				}
			}
		}
	}},
	{"plugins", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		return func(yield func(string) bool) {
			for p := range s.Plugins(nil, r.Prefix) {
				if !serving.SeesOn(ctx, acl.Plugin, "", acl.List, acl.Read) || !yield(string(p.ID)) {
					return
				}
			}
		}
	}},
	{"vars", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		return func(yield func(string) bool) {
			for v := range variables.Under(s, nil, r.Namespace, r.Prefix) {
				if serving.SeesVariable(ctx, v.Namespace, v.Path, acl.List) && !yield(v.Path) {
					return
				}
			}
		}
	}},
	{"scaling_policy", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		sees := serving.Sees(ctx, acl.ListScalingPolicies, acl.ReadJob)
		return func(yield func(string) bool) {
			for j := range s.JobsWithPolicies(nil, r.Namespace) {
				for p := range j.Policies() {
					id := string(p.ID())
					if sees(j.Namespace) && strings.HasPrefix(id, serving.UUIDPrefix(r.Prefix)) && !yield(id) {
						return
					}
				}
			}
		}
	}},
	{"volumes", func(ctx context.Context, s *state.Snap, r *wire.SearchRequest) iter.Seq[string] {
		sees := serving.Sees(ctx, acl.CSIListVolume, acl.CSIReadVolume)
		return func(yield func(string) bool) {
			for v := range s.Volumes(nil, r.Namespace, r.Prefix) {
				if sees(v.ID.Namespace) && !yield(string(v.ID.ID)) {
					return
				}
			}
		}
	}},
}

// without lists the kinds that clients search for and of which there can be none yet. A search for every kind names the
// first, as it does where there are any; the others it names where it finds one.
var without = []string{"host_volumes", "quotas", "recommendations"}

// searchable refuses a kind that cannot be searched.
func searchable(context string) error {
	var names []string
	for _, c := range contexts {
		names = append(names, c.name)
	}
	names = append(names, searchAll)
	if context == "" || slices.Contains(names, context) || slices.Contains(without, context) {
		return nil
	}
	return fault.New(fault.Conflict, "", "",
		fmt.Sprintf("context must be one of [%s]; got %q", strings.Join(names, " "), context))
}

func (e *Endpoints) search(ctx context.Context, req *wire.SearchRequest) (*wire.SearchReply, error) {
	if err := searchable(req.Context); err != nil {
		return nil, err
	}
	s := e.cfg.Store.Snapshot()
	out := &wire.SearchReply{Index: max(1, s.Index()), Matches: map[string][]string{}, Truncations: map[string]bool{}}
	asked := func(context string) bool {
		return req.Context == "" || req.Context == searchAll || req.Context == context
	}
	for i, context := range without {
		if req.Context == context || asked(context) && i < 1 {
			out.Matches[context], out.Truncations[context] = nil, false
		}
	}
	for _, c := range contexts {
		if !asked(c.name) {
			continue
		}
		found := []string{}
		out.Truncations[c.name] = false
		for id := range c.find(ctx, s, req) {
			if len(found) == matchesPerContext {
				out.Truncations[c.name] = true
				break
			}
			found = append(found, id)
		}
		out.Matches[c.name] = found
	}
	return out, nil
}
