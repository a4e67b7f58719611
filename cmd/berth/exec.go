package main

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/exec"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/service"
)

// execConfig is this host with machines that a command of the operator's runs.
type execConfig struct {
	Command []string      `yaml:"command"`
	Timeout time.Duration `yaml:"timeout"`
}

func defaultExec() execConfig { return execConfig{Timeout: exec.DefaultTimeout} }

func (e execConfig) options() exec.Options {
	return exec.Options{Command: e.Command, Timeout: e.Timeout}
}

func (e execConfig) check() error { return atExec(e.options().Check()) }

// atExec gives what is wrong with the options the keys of the file.
func atExec(err error) error {
	var errs []error
	for _, err := range config.All(err) {
		var e *compute.Error
		if errors.As(err, &e) {
			err = config.At("driver.exec."+e.Field, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// execAgent is the agent of this host. Its command is asked what it can do when
// the part is made.
func execAgent(c cell, o agentOptions, e exec.Options) service.Part {
	return service.Made(func(ctx context.Context) (service.Part, error) {
		o.Open = func() (hypervisor.Driver, error) {
			d, err := exec.Open(ctx, e)
			if err != nil {
				return nil, atExec(err)
			}
			c.log.Info("machines are run by a command", zap.String("with", d.Capabilities().Detail))
			return d, nil
		}
		return agentWithRoom(ctx, c, o)
	})
}
