package fsm

import (
	"berth/internal/base/ids"
	"berth/internal/server/holders"
	"berth/internal/server/state"
)

func init() { Register[PluginRebind]("plugin-rebind", providers, "server/volumes") }

// providers is the schema from which on what is stored keeps its provider, whoever serves its plugin.
const providers = 4

// PluginRebind gives what a plugin's provider From had to provider To: volumes, snapshots, and what stays of volumes
// that were forgotten by force. From is empty for what no provider is noted for.
type PluginRebind struct {
	Plugin   ids.Plugin
	From, To string
}

// Apply returns how many things were given over. It refuses a provider that is not the one that all instances of the
// plugin name now.
func (c *PluginRebind) Apply(tx *state.Tx, _ Stamp) (any, error) {
	if err := holders.Serves(&tx.Snap, c.Plugin, c.To); err != nil {
		return nil, err
	}
	return tx.GiveOver(c.Plugin, c.From, c.To), nil
}
