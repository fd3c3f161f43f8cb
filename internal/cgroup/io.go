package cgroup

import (
	"errors"
	"path/filepath"
	"strings"

	"berth/internal/base/fault"
)

// blkio is what the first version calls the controller "io".
const blkio = "blkio"

// throttles are the files of the first version that stand for the keys of io.max.
var throttles = map[string]string{
	"rbps":  "blkio.throttle.read_bps_device",
	"wbps":  "blkio.throttle.write_bps_device",
	"riops": "blkio.throttle.read_iops_device",
	"wiops": "blkio.throttle.write_iops_device",
}

// CheckIO returns nil if the node has what bounds of block devices are written into.
func (t *Tree) CheckIO() error {
	// A kernel may have the controller and no throttling; of the second version only groups below the root show it.
	if point := t.V1[blkio]; point != "" && !t.ops.exists(filepath.Join(point, throttles["rbps"])) {
		return noIO("the kernel's blkio controller cannot throttle",
			"use a kernel with CONFIG_BLK_DEV_THROTTLING, or take io_max out of the agent's configuration")
	}
	if t.Has("io") || t.Has(blkio) {
		return nil
	}
	return noIO("io limits need the cgroup controller io, or blkio of version 1, and this node offers neither",
		"boot with cgroup v2 alone (systemd.unified_cgroup_hierarchy=1), mount the hierarchy of blkio, "+
			"or take io_max out of the agent's configuration")
}

func noIO(why, hint string) error {
	return &fault.Error{
		Kind:    fault.Unsupported,
		Op:      "limit",
		Subject: "the task's io",
		Err:     errors.New(why),
		Hint:    hint,
	}
}

// ioSettings are the settings of the bounds of block devices. The first version has a file for each key.
func (t *Tree) ioSettings(l Limits) ([]setting, error) {
	if len(l.IO) == 0 {
		return nil, nil
	}
	if err := t.CheckIO(); err != nil {
		if l.Required {
			return nil, err
		}
		return nil, nil
	}
	var out []setting
	for _, line := range l.IO {
		if t.V1[blkio] == "" {
			out = append(out, setting{controller: "io", v2: "io.max", v2Value: line})
			continue
		}
		fields := strings.Fields(line)
		for _, bound := range fields[min(1, len(fields)):] {
			key, value, _ := strings.Cut(bound, "=")
			if throttles[key] == "" {
				return nil, fault.New(fault.Invalid, "limit", "the task's io", "there is no bound "+key)
			}
			out = append(out, setting{controller: blkio, v1: throttles[key], v1Value: fields[0] + " " + value})
		}
	}
	return out, nil
}
