package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/server/holders"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

// pluginRebind hands over what another provider of a plugin had. That it is meant is a person's word, so it is logged;
// whether the provider is the one that serves the plugin is asked when the command is applied.
func (e *Endpoints) pluginRebind(
	ctx context.Context, r *wire.PluginRebindRequest,
) (*wire.PluginRebindReply, error) {
	s, subject := volumes.Learned(ctx, e.cfg.Store, r.Plugin), `plugin "`+string(r.Plugin)+`"`
	from := r.From
	if from == "" {
		others := slices.DeleteFunc(holders.Owners(s, r.Plugin), func(name string) bool {
			return name == "" || name == r.Provider
		})
		switch len(others) {
		case 0:
			return nil, fault.New(fault.NotFound, "rebind", subject,
				fmt.Sprintf("nothing of it belongs to another provider than %q", r.Provider))
		case 1:
			from = others[0]
		default:
			return nil, fault.WithHint(fault.New(fault.Conflict, "rebind", subject,
				"its volumes belong to several providers: "+strings.Join(others, ", ")), "name one of them with -from")
		}
	}
	if from == r.Provider {
		return nil, fault.New(fault.Invalid, "rebind", subject, fmt.Sprintf("%q cannot take over from itself", from))
	}
	count, index, err := volumes.Rebind(ctx, e.cfg.Proposer, r.Plugin, from, r.Provider)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("what one provider of a plugin had was handed over to another by a person", logkey.Plugin, r.Plugin,
		"from", from, "to", r.Provider, "count", count)
	return &wire.PluginRebindReply{Index: index, From: from, Count: count}, nil
}
