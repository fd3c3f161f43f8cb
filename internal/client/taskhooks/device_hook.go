package taskhooks

import (
	"context"
	"fmt"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	model "berth/internal/model/device"
	"berth/internal/port/device"
	"berth/internal/port/driver"
)

// Devices makes devices ready.
type Devices interface {
	Reserve(ctx context.Context, given []model.Given) (*device.Provided, error)
}

// Device has the devices that a task was given made ready, and gives the task what it needs to use them.
type Device struct{ Devices Devices }

var _ hook.Prestarter = (*Device)(nil)

// Name implements hook.Hook.
func (*Device) Name() string { return "devices" }

// Prestart asks the plugins. A process that was found running has what it needs.
func (h *Device) Prestart(ctx context.Context, t *hook.Task) error {
	given := t.Alloc.Resources.Tasks[t.Task.Name].Devices
	if len(given) == 0 || t.Restored {
		return nil
	}
	r, err := h.Devices.Reserve(ctx, given)
	if fault.Has(err, fault.NotReady) {
		return err
	}
	if err != nil {
		return &hook.Failure{Event: alloc.EventNotReserved, Err: fault.WithHint(err,
			"what the plugin says stands in the agent's log, and how the device is, in the node's description "+
				"(berth node status -self -verbose)")}
	}
	addVariables(t, r)
	t.Out.Devices = append(t.Out.Devices, r.Devices...)
	for _, m := range r.Mounts {
		if t.DriverInfo.Capabilities.Mounts != driver.MountNone {
			m.Volume = "device " + given[0].Kind.String()
			t.Out.Mounts = append(t.Out.Mounts, m)
			continue
		}
		if m.Source != m.Target { // at its own path the task sees it anyway
			return &hook.Failure{Event: alloc.EventNotReserved, Err: fault.WithHint(
				fault.New(fault.Unsupported, "mount", fmt.Sprintf("%q of device %s", m.Target, given[0].Kind),
					fmt.Sprintf("driver %q mounts nothing, and the device is used at another path than the node's",
						t.Task.Driver)),
				"use a driver that mounts, for example exec")}
		}
	}
	return nil
}

// addVariables gives the task those variables of its devices' plugins that nothing else sets: whoever sets one for the
// task knows better than a plugin, which knows no task. An event has what no task gets of one.
func addVariables(t *hook.Task, r *device.Provided) {
	set := t.Variables()
	for k, v := range r.Env {
		if _, there := set[k]; !there {
			t.Out.Env[k] = v
		}
	}
	for _, l := range r.LeftOut {
		text := fmt.Sprintf("Device plugin %q gives variables that are not a plugin's to set, and the task did not "+
			"get them: %.500s. If the task needs one, set it in the env of the job", l.Plugin,
			strings.Join(l.Variables, ", "))
		t.Emit(&alloc.TaskEvent{Type: alloc.EventDeviceVariables, DisplayMessage: text, Message: text})
	}
}
