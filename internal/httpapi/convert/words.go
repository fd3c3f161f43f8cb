package convert

import (
	"fmt"
	"strings"

	"berth/api"
)

// HeaderSecrets reads the secrets of deletes and snapshots: "k=v,k2=v2" in a header, so that they stand in no URL. What
// does not have that form is refused, without showing it.
func HeaderSecrets(header string) (map[string]string, error) {
	if header == "" {
		return nil, nil
	}
	out := map[string]string{}
	for i, pair := range strings.Split(header, ",") {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf(
				"secret %d of the header X-Nomad-CSI-Secrets does not read key=value; pairs are separated by commas, "+
					"and values can't have any", i+1)
		}
		out[k] = v
	}
	return out, nil
}

// WarningText is how warnings travel: a count and bullets.
func WarningText(list []string) string {
	if len(list) == 0 {
		return ""
	}
	plural := "s"
	if len(list) == 1 {
		plural = ""
	}
	return fmt.Sprintf("%d warning%s:\n\n* %s", len(list), plural, strings.Join(list, "\n* "))
}

// Overrides is the warning for a request that would override policies.
func Overrides(asked bool) []string {
	if !asked {
		return nil
	}
	return []string{"PolicyOverride has no effect: there are no policies to override"}
}

// HealthText says what is not well of an agent.
func HealthText(h *api.AgentHealthResponse) string {
	text := ""
	if h.Server != nil && !h.Server.Ok {
		text = "server: " + h.Server.Message
	}
	if h.Client != nil && !h.Client.Ok {
		if text != "" {
			text += "; "
		}
		text += "client: " + h.Client.Message
	}
	return text
}
