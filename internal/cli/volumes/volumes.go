// Package volumes owns the commands about CSI volumes, their snapshots and their plugins. Only the root of the command
// line imports it.
package volumes

import (
	"fmt"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
	"berth/jobspec"
)

// Noun returns "volume" with its verbs.
func Noun(e *kit.Env) *kit.Command {
	snapshot := kit.Noun("snapshot", "Make, list and delete snapshots of volumes", newSnapshotCreate(e),
		newSnapshotList(e), newSnapshotDelete(e))
	return kit.Noun("volume", "Make volumes and look after them", newInit(e), newCreate(e), newRegister(e),
		newStatus(e), newExpand(e), newDelete(e), newDeregister(e), newDetach(e), newRelease(e), snapshot)
}

// PluginNoun returns "plugin" with its verbs.
func PluginNoun(e *kit.Env) *kit.Command {
	return kit.Noun("plugin", "Look at storage plugins and hand their volumes over", newPluginStatus(e),
		newPluginRebind(e))
}

// kindFlag is -type: CSI volumes are the only ones there are.
type kindFlag struct{ value string }

func (k *kindFlag) addTo(cmd *kit.Command) {
	cmd.Flags().StringVar(&k.value, "type", "csi", "`kind` of volume; there is csi")
}

func (k *kindFlag) check() error {
	switch k.value {
	case "csi", "":
		return nil
	case "host":
		return errNoHostVolumes
	}
	return kit.Fail(fault.Invalid, "", "the volume type %q is not known; there is csi", k.value)
}

var errNoHostVolumes = kit.Fail(fault.Unsupported,
	"use a volume of type csi; the bundled plugin local-csi keeps volumes on the node, too",
	"dynamic host volumes are not built yet")

// secretsFlag is -secret, which may come again.
type secretsFlag struct{ pairs []string }

func (s *secretsFlag) addTo(cmd *kit.Command) {
	cmd.Flags().Var((*kit.Strings)(&s.pairs), "secret", "`key=value` for the provider; may come again")
}

func (s *secretsFlag) secrets() (api.Secrets, error) {
	pairs, err := keyValues("-secret", s.pairs)
	return api.Secrets(pairs), err
}

// keyValues reads flags of the form key=value. Values may be secret, so that none is repeated in an error.
func keyValues(flag string, pairs []string) (map[string]string, error) {
	var out map[string]string
	for _, p := range pairs {
		key, value, ok := strings.Cut(p, "=")
		if !ok || key == "" {
			return nil, fault.New(fault.Invalid, "", "", flag+" takes key=value")
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, nil
}

// size reads a size in bytes with or without a unit.
func size(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := jobspec.ParseSize(text)
	if err != nil {
		return 0, fault.Wrap(err, fault.Invalid, "", flag)
	}
	return n, nil
}

// outcome says what a write came to.
func outcome(results []api.CSIVolumeWriteResult, otherwise string) string {
	if len(results) == 0 || results[0].Outcome == "" {
		return otherwise
	}
	text := results[0].Outcome
	if c := results[0].Changed; len(c) > 0 {
		text += ": " + strings.Join(c, ", ")
	}
	return text
}

// sayIncomplete names the nodes whose part of a provider's list is missing.
func sayIncomplete(e *kit.Env, plugin string, nodes []string) {
	if len(nodes) > 0 {
		e.Err.Notice(
			fmt.Sprintf("The list of plugin %q is incomplete, these nodes could not be asked: %s", plugin,
				strings.Join(nodes, ", ")))
	}
}
