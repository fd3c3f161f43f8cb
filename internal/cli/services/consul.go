package services

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// instance is one of a service that is to be found in Consul, with what its node says of that.
type instance struct {
	*api.ServiceRegistration
	Registered bool
	Since      int64  // Unix seconds: it stands so since then; 0: not known
	Reason     string // it is not registered; empty: nothing stands in its way
}

// inConsul are the instances of a service that are to be found in Consul. One whose node does not answer has that as
// its reason.
func inConsul(
	ctx context.Context, e *kit.Env, name string, q *api.QueryOptions,
) ([]*instance, *api.QueryMeta, error) {
	q.Params = map[string]string{"provider": "consul"}
	list, more, err := e.Client().Services().Get(ctx, name, q)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(list, func(a, b *api.ServiceRegistration) int {
		return cmp.Or(strings.Compare(a.JobID, b.JobID), strings.Compare(a.ID, b.ID))
	})
	out := make([]*instance, 0, len(list))
	for _, r := range list {
		i := &instance{ServiceRegistration: r, Reason: "its node has yet to hear of it"}
		out = append(out, i)
		all, err := e.Client().Allocations().ConsulServices(ctx, r.AllocID, &api.QueryOptions{Namespace: r.Namespace})
		if err != nil {
			i.Reason = "its node does not say: " + kit.OneSentence(err.Error())
			continue
		}
		for _, s := range all {
			if s.ID == r.ID {
				i.Registered, i.Since = s.Registered, s.Since
				i.Tags, i.Reason = s.Tags, s.Reason
			}
		}
	}
	return out, more, nil
}

func showInConsul(e *kit.Env, list []*instance, verbose bool) {
	header := []string{"Job ID", "Alloc ID", "Address", "Tags", "In Consul", "Since", "Reason"}
	kit.List(e.Out, list, "instances", header, func(i *instance) []string {
		return []string{i.JobID, kit.ID(i.AllocID, verbose), address(i.ServiceRegistration),
			"[" + strings.Join(i.Tags, ",") + "]", kit.Yes(i.Registered), since(i.Since, verbose),
			cmp.Or(i.Reason, "-")}
	})
}
