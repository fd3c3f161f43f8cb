package plugins

import (
	"path/filepath"
	"strconv"

	"berth/jobspec/hclfile"
)

// Qemu is the block of the driver qemu.
type Qemu struct {
	Config *QemuOptions `hcl:"config,block"`
}

// QemuOptions are what the block of the driver qemu can hold.
type QemuOptions struct {
	ImagePaths []string `hcl:"image_paths"` // directories of the node, and files, that images may be taken from
}

// qemuRefusals are options of others, with what there is in their place.
var qemuRefusals = map[string]string{
	"args_allowlist":      "whatever its arguments are, qemu sees what a task sees; leave it out",
	"emulators_allowlist": "machines are those of qemu-system-x86_64; leave it out",
}

// QemuSpecial refuses options of the driver qemu that others have, with the way out.
var QemuSpecial = hclfile.Special{Refusal: qemuRefusals}

// Images are where on the node machines of the driver qemu may have their images, beside the task's own.
func (p *Plugin) Images() ([]string, error) {
	if p.Qemu == nil || p.Qemu.Config == nil {
		return nil, nil
	}
	for _, path := range p.Qemu.Config.ImagePaths {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			return nil, bad(p.what()+" image_paths", strconv.Quote(path)+" is no directory for images",
				"write an absolute path other than /")
		}
	}
	return p.Qemu.Config.ImagePaths, nil
}
