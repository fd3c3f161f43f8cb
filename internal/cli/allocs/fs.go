package allocs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// files is "alloc fs".
type files struct {
	env    *kit.Env
	target target
	excerpt
	stat, bare bool
}

func newFS(e *kit.Env) *kit.Command {
	f := &files{env: e, target: target{env: e}}
	cmd := &kit.Command{
		Use:   "fs [flags] <alloc> [path]",
		Short: "Look at the files of an allocation",
		Long:  "Lists a directory of an allocation, or prints a file. Paths begin at the allocation's own directory.",
		Example: `  berth alloc fs 4ff1d9c5 alloc/data
  berth alloc fs -f 4ff1d9c5 alloc/logs/redis.stdout.0`,
		Run: func(ctx context.Context, args []string) error {
			path := "/"
			if len(args) > 1 {
				path = args[1]
			}
			return f.ended(ctx, f.do(ctx, args[0], path))
		},
	}
	fs := cmd.Flags()
	f.target.addTo(cmd, false)
	f.excerpt.addTo(cmd, "go on with what is appended")
	fs.BoolVar(&f.stat, "stat", false, "only what the file is")
	fs.BoolVar(&f.bare, "bytes-exact", false, "sizes in bytes")
	fs.Letters("H=bytes-exact")
	return cmd
}

func (f *files) do(ctx context.Context, arg, path string) error {
	if err := f.check(); err != nil {
		return err
	}
	a, err := f.target.find(ctx, arg, kit.Read)
	if err != nil {
		return err
	}
	c := f.env.Client()
	info, err := c.Allocations().StatFile(ctx, a.ID, path, query(a))
	if api.IsNotFound(err) {
		return kit.Fail(fault.NotFound, `"berth alloc fs `+kit.ID(a.ID, false)+`" lists what is there`,
			"allocation %q has no file %q", kit.ID(a.ID, false), path)
	}
	if err != nil {
		return kit.Doing(err, "look at", "path", path)
	}
	switch {
	case f.stat:
		f.table([]*api.AllocFileInfo{info}, true)
		return nil
	case info.IsDir:
		list, err := c.Allocations().ListFiles(ctx, a.ID, path, query(a))
		if err != nil {
			return kit.Doing(err, "list", "directory", path)
		}
		f.table(list, false)
		return nil
	}
	return kit.Doing(f.print(ctx, c, a, path, info.Size), "read", "file", path)
}

func (f *files) table(list []*api.AllocFileInfo, contents bool) {
	header := []string{"Mode", "Size", "Modified Time", "Name"}
	if contents {
		header = []string{"Mode", "Size", "Modified Time", "Content Type", "Name"}
	}
	kit.List(f.env.Out, list, "files", header, func(i *api.AllocFileInfo) []string {
		name, size := i.Name, kit.Size(i.Size)
		if f.bare {
			size = fmt.Sprint(i.Size)
		}
		if i.IsDir && !strings.HasSuffix(name, "/") {
			name += "/"
		}
		row := []string{i.FileMode, size, kit.At(i.ModTime)}
		if contents {
			row = append(row, i.ContentType)
		}
		return append(row, name)
	})
}

func (f *files) print(ctx context.Context, c *api.Client, a *api.Allocation, path string, size int64) error {
	offset := int64(0)
	switch {
	case f.bytes > 0:
		offset = max(size-f.bytes, 0)
	case f.lines > 0:
		offset = max(size-f.lines*bytesPerLine, 0)
	}
	if f.bytes > 0 || f.lines > 0 || !f.follow {
		if err := f.upTo(ctx, c, a, path, offset, size-offset); err != nil || !f.follow {
			return err
		}
		offset = size
	}
	frames, err := c.Allocations().FollowFile(ctx, a.ID, path, api.OriginStart, offset, query(a))
	if err != nil {
		return err
	}
	defer frames.Close()
	return frames.CopyTo(f.env.Out)
}

// upTo prints what the file has now, or its last lines.
func (f *files) upTo(ctx context.Context, c *api.Client, a *api.Allocation, path string, offset, length int64) error {
	if length == 0 && (f.follow || offset > 0) {
		return nil
	}
	body, err := c.Allocations().ReadFile(ctx, a.ID, path, offset, length, query(a))
	if err != nil {
		return err
	}
	defer body.Close()
	if f.lines == 0 {
		_, err = io.Copy(f.env.Out, body)
		return err
	}
	text, err := io.ReadAll(io.LimitReader(body, length))
	if err != nil {
		return err
	}
	return (&lastLines{w: f.env.Out, n: int(f.lines), held: text}).flush()
}
