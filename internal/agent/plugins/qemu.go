package plugins

import (
	"path/filepath"
	"strconv"

	"berth/internal/port/driver/qemu"
	"berth/jobspec/hclfile"
)

// Qemu is the block of the driver qemu.
type Qemu struct {
	Config *QemuOptions `hcl:"config,block"`
}

// QemuOptions are what the block of the driver qemu can hold.
type QemuOptions struct {
	// ImagePaths are directories of the node, and files, that images may be taken from, which machines only read.
	ImagePaths []string `hcl:"image_paths"`
	// WritableImagePaths are more of them, whose images machines write to.
	WritableImagePaths []string `hcl:"writable_image_paths"`
}

// qemuRefusals are options of others, with what there is in their place.
var qemuRefusals = map[string]string{
	"args_allowlist":      "whatever its arguments are, qemu sees what a task sees; leave it out",
	"emulators_allowlist": "machines are those of qemu-system-x86_64; leave it out",
}

// QemuSpecial refuses options of the driver qemu that others have, with the way out.
var QemuSpecial = hclfile.Special{Refusal: qemuRefusals}

// Machines says where on the node machines of the driver qemu may have their images, beside the task's own.
func (p *Plugin) Machines() (out qemu.Config, err error) {
	if p.Qemu == nil || p.Qemu.Config == nil {
		return out, nil
	}
	o := p.Qemu.Config
	for _, of := range []struct {
		name  string
		paths []string
	}{{"image_paths", o.ImagePaths}, {"writable_image_paths", o.WritableImagePaths}} {
		for _, path := range of.paths {
			if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
				return out, bad(p.what()+" "+of.name, strconv.Quote(path)+" is no directory for images",
					"write an absolute path other than /")
			}
		}
	}
	return qemu.Config{Images: o.ImagePaths, Writable: o.WritableImagePaths}, nil
}
