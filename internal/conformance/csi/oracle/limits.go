package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"berth/internal/conformance/csi/proxy"
)

// limits judges invariant I19: what is sent stays within the sizes of the specification (Size Limits; NodeGetInfo for
// node ids, VolumeCapability.MountVolume for mount flags) and within the 128 bytes that every plugin takes of a path.
type limits struct{}

const (
	maxString = 128 // bytes
	maxNode   = 256
	maxMap    = 4 << 10 // keys and values, and the flags of a mount
)

func (limits) begin(w *world, c *call) {
	if c.Secrets > maxMap {
		w.violate("I19", c.Entry, "the secrets have %d bytes, more than %d", c.Secrets, maxMap)
	}
	var request any
	if json.Unmarshal(c.Request, &request) != nil {
		return
	}
	if text, opaque := request.(string); opaque {
		w.violate("I19", c.Entry, "the request is %s", text)
		return
	}
	for _, text := range oversized("", request) {
		w.violate("I19", c.Entry, "%s", text)
	}
	if name, _ := request.(map[string]any)["name"].(string); strings.ContainsFunc(name, unicode.IsControl) {
		w.violate("I19", c.Entry, "the name %q has control characters", name)
	}
}

// dictionaries are the fields that are maps of texts, limited as a whole; tokens are limited by who made them.
var (
	dictionaries = strings.Fields(`parameters secrets volume_context publish_context mutable_parameters
		segments publish_info`)
	tokens = strings.Fields("starting_token")
)

// oversized goes through a message as JSON.
func oversized(field string, value any) (out []string) {
	switch v := value.(type) {
	case string:
		limit := maxString
		if field == "node_id" {
			limit = maxNode
		}
		if len(v) > limit && !slices.Contains(tokens, field) {
			out = append(out, fmt.Sprintf("%s has %d bytes, more than %d", field, len(v), limit))
		}
	case []any:
		total := 0
		for _, item := range v {
			if text, ok := item.(string); ok && field == "mount_flags" {
				total += len(text)
				continue
			}
			out = append(out, oversized(field, item)...)
		}
		if total > maxMap {
			out = append(out, fmt.Sprintf("%s have %d bytes, more than %d", field, total, maxMap))
		}
	case map[string]any:
		if slices.Contains(dictionaries, field) {
			total := 0
			for key, item := range v {
				total += len(key) + len(fmt.Sprint(item))
			}
			if total > maxMap {
				return []string{fmt.Sprintf("%s has %d bytes, more than %d", field, total, maxMap)}
			}
			return nil
		}
		for key, item := range v {
			out = append(out, oversized(key, item)...)
		}
	}
	slices.Sort(out)
	return out
}

func (limits) end(*world, *call)        {}
func (limits) mark(*world, proxy.Entry) {}
