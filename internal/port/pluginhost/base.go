package pluginhost

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/pluginhost/configspec"
	"berth/pluginproto/basepb"
)

// apiVersion is what Berth speaks of the protocol's own versions.
const apiVersion = "v0.1.0"

// admit refuses what is of no use, or of another kind than what the plugin was started for.
func (h *Host) admit(about *basepb.PluginInfoResponse) error {
	refuse := func(text, hint string) error {
		return fault.WithHint(fault.New(fault.Invalid, "use", h.Subject(), text), hint)
	}
	kind := kinds[about.GetType()]
	switch {
	case kind == "":
		return refuse(fmt.Sprintf("it says that it is a %s plugin", strings.ToLower(about.GetType().String())),
			"drivers of tasks and plugins of devices can be used; take its block out of the agent's configuration")
	case ids.ValidName(about.GetName()) != nil:
		return refuse(fmt.Sprintf("it calls itself %q", Clip(about.GetName())),
			"the name of a plugin holds letters, digits, dots, - and _")
	case !slices.Contains(about.GetPluginApiVersions(), apiVersion):
		return refuse(fmt.Sprintf("it speaks the versions %q", about.GetPluginApiVersions()),
			"Berth speaks "+apiVersion+" of the protocol of plugins")
	case kind != h.use.Kind && !h.use.HandsOn:
		return refuse(fmt.Sprintf("it says that it is a %s plugin, and was a %s plugin when the agent started", kind,
			h.use.Kind), "start the agent again, or put the plugin back that was there")
	case kind != h.use.Kind:
		return &Another{Subject: h.Subject(), Kind: kind}
	}
	return nil
}

// configure gives the plugin the config of its block, twice, as plugins expect: without what is said of the node, to
// have it judged, and then to be used.
func (h *Host) configure(ctx context.Context, base basepb.BasePluginClient) error {
	schema, err := base.ConfigSchema(ctx, &basepb.ConfigSchemaRequest{})
	if err != nil {
		return Problem(err, "ask", "what it can be configured with")
	}
	spec, err := configspec.Read(schema.GetSpec())
	if err != nil {
		return err
	}
	config, err := spec.Encode(h.cfg.Values)
	if err != nil {
		return fault.Note(err, "configure", "plugin "+strconv.Quote(h.cfg.Block))
	}
	for _, host := range []*basepb.NomadConfig{nil, {Driver: &basepb.NomadDriverConfig{
		ClientMinPort: uint32(h.cfg.Ports[0]),
		ClientMaxPort: uint32(h.cfg.Ports[1]),
	}}} {
		if _, err := base.SetConfig(ctx, &basepb.SetConfigRequest{
			MsgpackConfig:    config,
			NomadConfig:      host,
			PluginApiVersion: apiVersion,
		}); err != nil {
			return Problem(err, "configure", "plugin "+strconv.Quote(h.cfg.Block))
		}
	}
	return nil
}
