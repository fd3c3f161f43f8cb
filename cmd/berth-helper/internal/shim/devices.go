package shim

import (
	"golang.org/x/sys/unix"

	"berth/internal/base/devices"
	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// keepFromDevices lets an isolated process use the devices that it was given and no others. A kernel that cannot do
// that is good enough where all that is given may be read and written: the nodes of others are not in sight.
func keepFromDevices(group string, iso *shimproto.Isolate) error {
	if iso == nil || iso.HostDevices || !iso.NoNewPrivileges {
		return nil // it sees the node's, or acts on it
	}
	rules, narrow := devices.Standard(), false
	given := iso.Devices
	for _, b := range iso.Binds { // a volume may be a device
		permissions := "rw"
		if b.ReadOnly {
			permissions = "r"
		}
		given = append(given[:len(given):len(given)], shimproto.Device{HostPath: b.Source, Permissions: permissions})
	}
	for i, d := range given {
		var st unix.Stat_t
		if err := unix.Stat(d.HostPath, &st); err != nil {
			continue // whoever shows it says more of it
		}
		kind := st.Mode & unix.S_IFMT
		if kind != unix.S_IFBLK && kind != unix.S_IFCHR {
			continue
		}
		access, err := devices.Of(d.Permissions)
		if err != nil {
			return fault.Note(err, "give", "device "+d.HostPath)
		}
		narrow = narrow || i < len(iso.Devices) && access&(devices.Read|devices.Write) != devices.Read|devices.Write
		rules = append(rules, devices.Rule{
			Block:  kind == unix.S_IFBLK,
			Major:  int64(unix.Major(st.Rdev)),
			Minor:  int64(unix.Minor(st.Rdev)),
			Access: access,
		})
	}
	err := devices.Confine(group, rules)
	if fault.Has(err, fault.Unsupported) && !narrow {
		return nil
	}
	return fault.WithHint(err, "this kernel cannot give a device for reading alone: use rw")
}
