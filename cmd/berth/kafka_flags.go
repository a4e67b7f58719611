// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/doctor"
	"github.com/berth-project/berth/pkg/wire"
)

// kafkaFlags say to a command that reads Kafka itself which cell to look at.
type kafkaFlags struct {
	file, prefix string
	brokers      []string
	// Of the file, once cell was called; empty: it has none.
	trust      string // hosts.trust
	publish    string // publish.trust
	publishKey string // publish_key_file
	audit      string // "true" or "false": whether an API node with this file keeps an audit
	userData   doctor.UserDataFacts
	shown      doctor.CertificateFacts
	patience   time.Duration
}

func (k *kafkaFlags) add(cmd *cobra.Command, patience time.Duration) {
	flags := cmd.Flags()
	flags.StringVar(&k.file, "config", "", "file of any daemon of the cell; its kafka section counts")
	flags.StringSliceVar(&k.brokers, "kafka", nil, "brokers, over the file ($"+config.Variable("kafka.brokers")+")")
	flags.StringVar(
		&k.prefix,
		"prefix",
		wire.DefaultPrefix,
		"prefix of the cell's topics, over the file ($"+config.Variable("kafka.prefix")+")",
	)
	flags.DurationVar(&k.patience, "timeout", patience, "how long to look")
}

// named says whether the flags or a variable say where Kafka is, instead of leaving it to the default.
func (k *kafkaFlags) named() bool {
	return k.file != "" || len(k.brokers) > 0 || os.Getenv(config.Variable("kafka.brokers")) != ""
}

// cell is the cell that the flags name.
func (k *kafkaFlags) cell(cmd *cobra.Command, name string) (cell.Cell, error) {
	from := daemonFlags{file: k.file}.from()
	from.Part = true
	if len(k.brokers) > 0 {
		from.Set = append(from.Set, "kafka.brokers="+strings.Join(k.brokers, ","))
	}
	if cmd.Flags().Changed("prefix") {
		from.Set = append(from.Set, "kafka.prefix="+k.prefix)
	}
	settings := kafkaSection{Kafka: cell.DefaultKafka()}
	loaded := config.Load(&settings, from)
	if err := loaded.Err(settings.Kafka.Check()); err != nil {
		return cell.Cell{}, err
	}
	k.trust, k.publish = string(settings.Hosts.Trust), string(settings.Publish.Trust)
	k.publishKey, k.audit = settings.PublishKey, settings.audit()
	k.userData = settings.userData()
	if own, err := settings.Kafka.TLS.Certificate(); err == nil && own != nil { // the error comes from Secured
		k.shown = doctor.CertificateFacts{File: settings.Kafka.TLS.Cert, Expires: own.NotAfter}
	}
	return cell.New(settings.Kafka, nil, zap.NewNop(), name).Secured(settings.Kafka)
}

// kafkaSection is the part of any daemon's file that such a command needs.
type kafkaSection struct {
	Kafka      cell.KafkaSettings   `yaml:"kafka"`
	Hosts      cell.HostsSettings   `yaml:"hosts"`            // of conductors and queue managers
	Publish    cell.PublishSettings `yaml:"publish"`          // of conductors
	PublishKey string               `yaml:"publish_key_file"` // of API nodes, as what follows
	Listen     string               `yaml:"listen"`
	Auth       authConfig           `yaml:"auth"`
	Audit      string               `yaml:"audit"`

	UserData cell.UserDataSettings `yaml:"user_data"` // of agents, too
}

// userData is what an API node with this file seals by.
func (k kafkaSection) userData() doctor.UserDataFacts {
	if k.audit() == "" {
		return doctor.UserDataFacts{}
	}
	keys, err := k.UserData.Load(k.Kafka.Prefix)
	return doctor.UserDataFacts{Known: true, Keys: keys.IDs(), Err: err}
}

// audit says whether an API node with this file keeps an audit; empty: it is the file of another daemon.
func (k kafkaSection) audit() string {
	if k.Listen == "" && k.Audit == "" && k.Auth.none() {
		return ""
	}
	return strconv.FormatBool(apiConfig{Auth: k.Auth, Audit: cmp.Or(k.Audit, auditSignedIn)}.keepsAudit())
}

// runs is the RunE of such a command: do has a cell whose Kafka is reached.
func (k *kafkaFlags) runs(
	name string, do func(ctx context.Context, c cell.Cell, w io.Writer, f cli.Format) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		f, err := cli.ParseFormat(cmd.Flag("output").Value.String())
		if err != nil {
			return err
		}
		c, err := k.cell(cmd, name)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), k.patience)
		defer cancel()
		if err := c.Reach(ctx); err != nil {
			return compute.Unavailable("reach Kafka at "+strings.Join(c.Kafka.Brokers, ", "), err)
		}
		return do(ctx, c, cmd.OutOrStdout(), f)
	}
}
