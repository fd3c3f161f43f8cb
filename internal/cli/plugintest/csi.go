package plugintest

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/pluginreport"
	"berth/internal/base/redact"
	"berth/internal/cli/kit"
	"berth/jobspec"
)

func newCSI(e *kit.Env, t Tester) *kit.Command {
	var o storageOptions
	cmd := &kit.Command{
		Use:   "csi [flags] <command>...",
		Short: "Hold a storage plugin to what the agent relies on",
		Long: `Starts the plugin with CSI_ENDPOINT set, and holds it to the Container Storage Interface: first what any
caller may expect, then the way of a volume as the agent makes it, from its creation to a mount and back, with answers
that are lost, equal calls at once, calls that are broken off, kills in their midst, and mounts that are gone. The mount
table has the last word. In the arguments ${CSI_ENDPOINT} is replaced by the socket. The test makes a volume, or a few,
of its own, and deletes them; it touches no other. A plugin without a controller or a node service is tested as far as
it goes.
` + exits,
		Example: `  berth plugin test csi ./my-plugin --endpoint '${CSI_ENDPOINT}'
  berth plugin test csi -parameters '{"pool": "fast"}' -secrets login.json -json ./my-plugin`,
		Local:   true,
		Foreign: true,
		Run: func(ctx context.Context, args []string) error {
			return o.run(ctx, e, args, t.CSI)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.parameters, "parameters", "", "`parameters` of the volumes that are created, as JSON")
	f.StringVar(&o.secrets, "secrets", "", "`file` with the secrets of every call, as JSON")
	f.StringVar(&o.size, "size", "64MiB", "`size` of the volumes that are created")
	f.StringVar(&o.fsType, "fs-type", "", "`type` of their file system (default: the plugin's choice)")
	f.DurationVar(&o.limit, "limit", 2*time.Minute, "how `long` one promise may take")
	return o.formats.AddTo(cmd)
}

type storageOptions struct {
	parameters, secrets, size, fsType string

	limit   time.Duration
	formats kit.Formats
}

func (o *storageOptions) run(ctx context.Context, e *kit.Env, args []string, run test) error {
	v := pluginreport.Volume{FSType: o.fsType, Limit: o.limit}
	var err error
	if v.Bytes, err = jobspec.ParseSize(o.size); err != nil || v.Bytes <= 0 {
		return kit.Fail(fault.Invalid, `write a size, such as "64MiB"`, "-size %q is no size", o.size)
	}
	if o.limit <= 0 {
		return kit.Fail(fault.Invalid, `write a duration, such as "2m"`, "-limit %s is no time for a test", o.limit)
	}
	if err := texts("-parameters", []byte(o.parameters), &v.Parameters); err != nil {
		return err
	}
	var secrets []byte
	if o.secrets != "" {
		if secrets, err = os.ReadFile(o.secrets); err != nil {
			return kit.Fail(fault.Invalid, "name a file that is there", "-secrets: %s", err)
		}
	}
	var values map[string]string
	if err := texts("-secrets", secrets, &values); err != nil {
		return err
	}
	v.Secrets = redact.MapOf(values)
	return report(ctx, e, &o.formats, pluginreport.Asked{Command: args, Volume: v}, run)
}

func texts(flag string, text []byte, into *map[string]string) error {
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return kit.Fail(fault.Invalid, `write an object of texts, such as '{"pool": "fast"}'`,
			"%s is no JSON of that kind", flag)
	}
	return nil
}
