package volumes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// sample is a volume file to start from.
const sample = `# A volume. Make it with: berth volume create volume.hcl

id        = "db-data" # how jobs and commands name it
name      = "db-data" # what the provider calls it
type      = "csi"
plugin_id = "local-csi" # "berth plugin status" lists what there is

# The provider makes it at least this large, and at most that. Raise capacity_min and create again to expand it.
capacity_min = "1GiB"
capacity_max = "2GiB"

# How it may be used. A job's volume block asks for one of these.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type = "ext4"
}

# Without this a new volume is given to the user of the first task that writes to it.
# ownership {
#   uid    = 999
#   gid    = 999
#   mode   = "0750"
#   policy = "root_only"     # or recursive_if_root_differs, or none
# }

# parameters {               # of the provider
#   key = "value"
# }

# snapshot_id = "…"          # begin with what a snapshot holds; "berth volume snapshot list"
# clone_id    = "…"          # begin with what another volume holds
`

func newInit(e *kit.Env) *kit.Command {
	var asJSON bool
	var kind kindFlag
	cmd := &kit.Command{
		Use:     "init [flags] [file]",
		Short:   "Write a volume file to start from",
		Long:    "Writes a volume file, volume.hcl unless another name is given. A file that is there is left alone.",
		Example: "  berth volume init",
		Local:   true,
		Run: func(ctx context.Context, args []string) error {
			if err := kind.check(); err != nil {
				return err
			}
			name, text := "volume.hcl", sample
			if asJSON {
				name, text = "volume.json", sampleJSON()
			}
			if len(args) > 0 {
				name = args[0]
			}
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return kit.Fail(fault.Conflict, "name another: berth volume init other.hcl",
					"the file %s is there already", name)
			}
			if err != nil {
				return fmt.Errorf("the file cannot be written: %w", err)
			}
			_, err = f.WriteString(text)
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("the file cannot be written: %w", err)
			}
			e.Out.Printf("Wrote %s; edit it, then: berth volume create %s\n", name, name)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "in JSON")
	kind.addTo(cmd)
	return cmd
}

func sampleJSON() string {
	doc := map[string]any{
		"id": "db-data", "name": "db-data", "type": "csi", "plugin_id": "local-csi", "capacity_min": "1GiB",
		"capacity_max":  "2GiB",
		"capability":    []any{map[string]any{"access_mode": "single-node-writer", "attachment_mode": "file-system"}},
		"mount_options": []any{map[string]any{"fs_type": "ext4"}},
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return "{}\n" // a map of texts can always be encoded
	}
	return string(text) + "\n"
}
