package allocs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

// files is "alloc fs".
type files struct {
	env                      *kit.Env
	target                   target
	stat, follow, tail, bare bool
	lines, bytes             int64
}

func newFS(e *kit.Env) *cobra.Command {
	f := &files{env: e, target: target{env: e}}
	cmd := &cobra.Command{
		Use:   "fs [flags] <alloc> [path]",
		Short: "Look at the files of an allocation",
		Long:  "Lists a directory of an allocation, or prints a file. Paths begin at the allocation's own directory.",
		Example: `  berth alloc fs 4ff1d9c5 alloc/data
  berth alloc fs -f 4ff1d9c5 alloc/logs/redis.stdout.0`,
		Args: kit.Args("alloc", "[path]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/"
			if len(args) > 1 {
				path = args[1]
			}
			err := f.do(cmd.Context(), args[0], path)
			if f.follow && cmd.Context().Err() != nil {
				return nil // Ctrl-C is how following ends
			}
			return err
		},
	}
	fs := cmd.Flags()
	f.target.addTo(cmd, false)
	fs.BoolVar(&f.stat, "stat", false, "only what the file is")
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on with what is appended")
	fs.BoolVar(&f.tail, "tail", false, "only the end; 10 lines unless -n or -c say otherwise")
	fs.Int64VarP(&f.lines, "lines", "n", 0, "only the last `n` lines")
	fs.Int64VarP(&f.bytes, "bytes", "c", 0, "only the last `n` bytes")
	fs.BoolVarP(&f.bare, "bytes-exact", "H", false, "sizes in bytes")
	return cmd
}

func (f *files) do(ctx context.Context, arg, path string) error {
	if f.lines < 0 || f.bytes < 0 || f.lines > 0 && f.bytes > 0 {
		return fault.New(fault.Invalid, "", "", "-n and -c take a positive number, and exclude each other")
	}
	if f.tail && f.lines == 0 && f.bytes == 0 {
		f.lines = 10
	}
	a, err := f.target.find(ctx, arg, kit.Read)
	if err != nil {
		return err
	}
	c, err := f.env.Client()
	if err != nil {
		return err
	}
	info, err := c.Allocations().StatFile(ctx, a.ID, path, query(a))
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
		if len(list) == 0 {
			f.env.Out.Printf("No files\n")
			return nil
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
	var rows [][]string
	for _, i := range list {
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
		rows = append(rows, append(row, name))
	}
	f.env.Out.Table(header, rows)
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
