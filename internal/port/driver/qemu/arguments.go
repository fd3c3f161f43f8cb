package qemu

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
)

// Sockets of a machine, in the task's directory on the node, and in its root as well.
const (
	monitor = "local/qemu-monitor.sock"
	agent   = "local/qa.sock"
)

// ownMB is what qemu needs itself of a task's memory, beside that of the machine; translated is its largest part.
const (
	ownMB      = 128
	translated = 64
)

// arguments are those of qemu. What a job gives comes last: of an option that is there twice, qemu takes the later.
func arguments(cfg *driver.TaskConfig, o taskconfig.Options) ([]string, error) {
	memory, err := guestMB(cfg.Resources)
	if err != nil {
		return nil, err
	}
	image := filepath.Clean("/" + o.Text("image_path"))
	words := []string{"-machine", "pc", "-m", strconv.FormatInt(memory, 10) + "M", "-nographic", "-no-user-config",
		"-drive", "file=" + escaped(image) + ",if=" + cmp.Or(o.Text("drive_interface"), interfaces[0])}
	if o.Text("accelerator") == kvm {
		words = append(words, "-accel", kvm, "-cpu", "host")
	} else {
		words = append(words, "-accel", fmt.Sprintf("%s,tb-size=%d", tcg, translated))
	}
	ports, err := forwarded(cfg, o.Pairs("port_map"))
	if err != nil {
		return nil, err
	}
	words = append(words, ports...)
	if o.Yes("graceful_shutdown") {
		words = append(words, "-qmp", "unix:/"+monitor+",server=on,wait=off")
	}
	if o.Yes("guest_agent") {
		words = append(words, "-chardev", "socket,path=/"+agent+",server=on,wait=off,id=qga0",
			"-device", "virtio-serial", "-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0")
	}
	return append(words, o.Texts("args")...), nil
}

// guestMB is the memory of the machine: what the job asks for, as far as qemu itself fits below the task's bound beside
// it. A machine uses all that it has, if only for its cache: one that had all of the bound would be killed.
func guestMB(r driver.Resources) (int64, error) {
	guest := r.MemoryMB
	if r.MemoryMaxMB >= 0 {
		guest = min(guest, cmp.Or(r.MemoryMaxMB, r.MemoryMB)-ownMB)
	}
	if guest < 1 {
		return 0, fault.WithHint(
			fault.New(fault.Invalid, "", "resources.memory",
				fmt.Sprintf("%d leaves the machine none: qemu itself needs %d", r.MemoryMB, ownMB)),
			fmt.Sprintf("write %d more than the machine is to have", ownMB))
	}
	return guest, nil
}

// forwarded are the arguments by which ports of the alloc lead into the machine, tcp and udp.
func forwarded(cfg *driver.TaskConfig, ports map[string]string) ([]string, error) {
	if len(ports) == 0 {
		return nil, nil
	}
	device := "user,id=user.0"
	for _, label := range slices.Sorted(maps.Keys(ports)) {
		what := "config.port_map." + label
		inside, err := strconv.ParseUint(ports[label], 10, 16)
		if err != nil || inside == 0 {
			return nil, fault.WithHint(fault.New(fault.Invalid, "", what, strconv.Quote(ports[label])+" is no port"),
				"write its number in the machine, such as 80")
		}
		i := slices.IndexFunc(cfg.Ports, func(p driver.Port) bool { return p.Label == label })
		if i < 0 {
			return nil, fault.WithHint(fault.New(fault.Invalid, "", what, "the group has no port of this label"),
				"add it to the group's network block")
		}
		host, port, err := listens(cfg, cfg.Ports[i])
		if err != nil {
			return nil, fault.Note(err, "", what)
		}
		for _, protocol := range []string{"tcp", "udp"} {
			device += fmt.Sprintf(",hostfwd=%s:%s:%d-:%d", protocol, host, port, inside)
		}
	}
	return []string{"-netdev", device, "-device", "virtio-net,netdev=user.0"}, nil
}

// listens is where qemu listens for a port of the alloc: in a network of the alloc's own at the port's number there.
func listens(cfg *driver.TaskConfig, p driver.Port) (host string, port int, err error) {
	if cfg.Network != nil && cfg.Network.Namespace != "" {
		if p.To > 0 {
			return "", p.To, nil
		}
		return "", p.Value, nil
	}
	if strings.Contains(p.HostIP, ":") {
		return "", 0, fault.WithHint(
			fault.New(fault.Unsupported, "", p.HostIP, "qemu listens at addresses of IPv4 alone"),
			`write mode = "bridge" in the group's network block`)
	}
	if at, err := netip.ParseAddr(p.HostIP); err == nil { // otherwise it is none, and qemu listens at all
		host = at.String()
	}
	return host, p.Value, nil
}
