package spec

import (
	"berth/internal/model/container"
	"berth/internal/model/taskconfig"
)

// Schema is what the block can hold.
var Schema = taskconfig.Schema{
	"image":              {Kind: taskconfig.Text, Required: true},
	"command":            {Kind: taskconfig.Text},
	"args":               {Kind: taskconfig.Texts},
	"entrypoint":         {Kind: taskconfig.Texts},
	"work_dir":           {Kind: taskconfig.Text, Absolute: true},
	"labels":             {Kind: taskconfig.Map},
	"hostname":           {Kind: taskconfig.Text},
	"init":               {Kind: taskconfig.Boolean},
	"interactive":        {Kind: taskconfig.Boolean},
	"tty":                {Kind: taskconfig.Boolean},
	"readonly_rootfs":    {Kind: taskconfig.Boolean},
	"runtime":            {Kind: taskconfig.Text},
	"storage_opt":        {Kind: taskconfig.Map},
	"shm_size":           {Kind: taskconfig.Number}, // bytes
	"sysctl":             {Kind: taskconfig.Map},
	"ulimit":             {Kind: taskconfig.Map},
	"oom_score_adj":      {Kind: taskconfig.Number, Most: 1000},
	"pids_limit":         {Kind: taskconfig.Number, Most: 1 << 22},
	"memory_hard_limit":  {Kind: taskconfig.Number}, // MiB
	"cpu_hard_limit":     {Kind: taskconfig.Boolean},
	"cpu_cfs_period":     {Kind: taskconfig.Number, Most: 1_000_000}, // microseconds
	"group_add":          {Kind: taskconfig.Texts},
	"extra_hosts":        {Kind: taskconfig.Texts},
	"dns_servers":        {Kind: taskconfig.Texts},
	"dns_search_domains": {Kind: taskconfig.Texts},
	"dns_options":        {Kind: taskconfig.Texts},

	// Images.
	"force_pull":         {Kind: taskconfig.Boolean},
	"image_pull_timeout": {Kind: taskconfig.Text},
	"load":               {Kind: taskconfig.Text}, // an archive in the task's directory
	"auth_soft_fail":     {Kind: taskconfig.Boolean},
	"auth": {Kind: taskconfig.Blocks, Fields: taskconfig.Schema{
		"username":       {Kind: taskconfig.Text},
		"password":       {Kind: taskconfig.Text},
		"email":          {Kind: taskconfig.Text},
		"server_address": {Kind: taskconfig.Text},
	}},

	// Networks.
	"network_mode":    {Kind: taskconfig.Text},
	"network_aliases": {Kind: taskconfig.Texts},
	"ipv4_address":    {Kind: taskconfig.Text},
	"ipv6_address":    {Kind: taskconfig.Text},
	"mac_address":     {Kind: taskconfig.Text},
	"ports":           {Kind: taskconfig.Texts}, // labels of the group's

	// What may act on the node.
	"privileged":   {Kind: taskconfig.Boolean},
	"cap_add":      {Kind: taskconfig.Texts},
	"cap_drop":     {Kind: taskconfig.Texts},
	"security_opt": {Kind: taskconfig.Texts},
	"pid_mode":     {Kind: taskconfig.Text},
	"ipc_mode":     {Kind: taskconfig.Text},
	"uts_mode":     {Kind: taskconfig.Text},
	"userns_mode":  {Kind: taskconfig.Text},
	"cgroupns":     {Kind: taskconfig.Text, OneOf: []string{"private", host}},
	"devices": {Kind: taskconfig.Blocks, Fields: taskconfig.Schema{
		"host_path":          {Kind: taskconfig.Text, Required: true, Absolute: true},
		"container_path":     {Kind: taskconfig.Text, Absolute: true},
		"cgroup_permissions": {Kind: taskconfig.Text},
	}},
	"volume_driver": {Kind: taskconfig.Text},
	"volumes":       {Kind: taskconfig.Texts}, // host:container[:options]
	"mount":         {Kind: taskconfig.Blocks, Fields: mountFields},
	"mounts":        {Kind: taskconfig.Blocks, Fields: mountFields},

	"logging": {Kind: taskconfig.Blocks, Fields: taskconfig.Schema{
		"type":   {Kind: taskconfig.Text},
		"driver": {Kind: taskconfig.Text},
		"config": {Kind: taskconfig.Map},
	}},
	"healthchecks": {Kind: taskconfig.Blocks, Fields: taskconfig.Schema{
		"disable": {Kind: taskconfig.Boolean},
	}},

	// Taken, and without effect: a name that is taken is tried until it is free, and Windows is not here.
	"container_exists_attempts": {Kind: taskconfig.Number},
	"isolation":                 {Kind: taskconfig.Text},
}

var mountFields = taskconfig.Schema{
	"type":     {Kind: taskconfig.Text, OneOf: []string{"bind", "volume", "tmpfs"}},
	"source":   {Kind: taskconfig.Text},
	"target":   {Kind: taskconfig.Text, Required: true},
	"readonly": {Kind: taskconfig.Boolean},
	"bind_options": {Kind: taskconfig.Blocks, Fields: taskconfig.Schema{
		"propagation": {Kind: taskconfig.Text, OneOf: container.Propagations},
	}},
	"tmpfs_options": {Kind: taskconfig.Blocks, Fields: taskconfig.Schema{
		"size": {Kind: taskconfig.Number}, // bytes
		"mode": {Kind: taskconfig.Number},
	}},
	"volume_options": {Kind: taskconfig.Blocks, Fields: taskconfig.Schema{
		"no_copy": {Kind: taskconfig.Boolean},
		"labels":  {Kind: taskconfig.Map},
		"driver_config": {Kind: taskconfig.Blocks, Fields: taskconfig.Schema{
			"name":    {Kind: taskconfig.Text},
			"options": {Kind: taskconfig.Map},
		}},
	}},
}

// Options reads a config block as the Schema left it.
type Options = taskconfig.Options
