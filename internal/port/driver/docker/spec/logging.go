package spec

import (
	"maps"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/container"
	"berth/internal/port/dockerapi"
)

// How a daemon keeps what containers write on its node, in files.
const (
	jsonFile = "json-file"
	local    = "local"
)

// What the daemon keeps of a container's output may take on the node, until it was read.
const (
	maxKept   = 1 << 30
	maxBuffer = 64 << 20 // in the daemon's memory
)

// logging says how the daemon keeps what the container writes until it was read. It is small: it is kept by Berth.
func (p *Policy) logging(o Options, h *dockerapi.Host) error {
	block := o.One("logging")
	kind, config := container.LogType(block), block.Pairs("config")
	own := config
	if kind == "" || kind == p.LogType {
		kind, config = p.LogType, maps.Clone(p.LogOptions)
		if config == nil {
			config = map[string]string{}
		}
		maps.Copy(config, own)
	}
	if container.GoesOut(kind) && len(own) > 0 {
		if err := p.allows(container.LogsNeed(kind)); err != nil {
			return err
		}
	}
	if kind == "" {
		kind = jsonFile
	}
	h.LogConfig = &dockerapi.Log{Type: kind, Config: config}
	if kind != jsonFile && kind != local {
		return nil
	}
	kept := map[string]string{"max-size": "10m", "max-file": "2"}
	maps.Copy(kept, config)
	h.LogConfig.Config = kept
	if len(own) == 0 {
		return nil // what the agent says, it says
	}
	size, sized := sizeOf(kept["max-size"])
	files, err := strconv.ParseInt(kept["max-file"], 10, 32)
	if !sized || err != nil || size < 1 || files < 1 || size > maxKept/files {
		return fault.WithHint(fault.New(fault.Invalid, "", "config.logging.config",
			"max-size "+strconv.Quote(kept["max-size"])+" with max-file "+strconv.Quote(kept["max-file"])+
				" bounds nothing, or is more than 1 GiB"),
			`write as in max-size = "10m" and max-file = "2": what is kept of the output is said by the logs block`)
	}
	if text, set := kept["max-buffer-size"]; set {
		if size, sized := sizeOf(text); !sized || size < 1 || size > maxBuffer {
			return fault.WithHint(fault.New(fault.Invalid, "", "config.logging.config",
				"max-buffer-size "+strconv.Quote(text)+" is no size, or more than 64 MiB"), `write as in "4m"`)
		}
	}
	return nil
}

// sizeOf reads a size as the daemon does: a number with k, m or g behind.
func sizeOf(text string) (int64, bool) {
	text = strings.TrimSuffix(strings.ToLower(text), "b")
	unit := int64(1)
	for i, letter := range []string{"k", "m", "g"} {
		if number, ok := strings.CutSuffix(text, letter); ok {
			text, unit = number, 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return n * unit, err == nil
}
