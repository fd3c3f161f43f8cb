// Package devicerules owns what a task may ask for of its node's devices. Only package jobrules imports it.
package devicerules

import (
	"fmt"
	"strings"

	"berth/api"
	"berth/internal/model/device"
)

// Bounds of what one task may ask for: each request is held against every kind of device of every node.
const (
	MaxDevices = 32   // requests of a task
	maxCount   = 1024 // of one request
	maxRules   = 64   // constraints and affinities of one request
)

// Problems are what is wrong with a request, beside what is wrong with any constraint and affinity. many: it has so
// many of those that they are not looked at.
func Problems(d *api.RequestedDevice) (out []string, many bool) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !device.ValidName(d.Name) {
		say("its name is a type, vendor/type, or vendor/type/model, such as \"gpu\" or \"nvidia/gpu\"")
	}
	if *d.Count < 1 || *d.Count > maxCount {
		say("count must be between 1 and %d, is %d", maxCount, *d.Count)
	}
	if n := len(d.Constraints) + len(d.Affinities); n > maxRules {
		say("it has %d constraints and affinities, and %d is the most", n, maxRules)
		return out, true
	}
	for _, k := range d.Constraints {
		if k != nil {
			out = append(out, targets(k.LTarget, k.RTarget)...)
		}
	}
	for _, a := range d.Affinities {
		if a != nil {
			out = append(out, targets(a.LTarget, a.RTarget)...)
		}
	}
	return out, false
}

// targets refuses what says nothing of a device: it would never hold.
func targets(attribute, value string) (out []string) {
	if attribute != "" && !ofDevice(attribute) {
		out = append(out, fmt.Sprintf("attribute %q says nothing of a device: write ${device.attr.NAME}, "+
			"${device.model}, ${device.vendor}, ${device.type} or ${device.ids}; what is said of the node belongs into "+
			"a constraint of the task", attribute))
	}
	if strings.HasPrefix(value, "${") && !ofDevice(value) {
		out = append(out, fmt.Sprintf("value %q says nothing of a device: write a value, or ${device.attr.NAME}",
			value))
	}
	return out
}

func ofDevice(text string) bool {
	switch text {
	case "${device.model}", "${device.vendor}", "${device.type}", "${device.ids}":
		return true
	}
	inner, ok := strings.CutPrefix(text, "${device.attr.")
	return ok && len(inner) > 1 && strings.HasSuffix(inner, "}")
}
