# One command a paragraph. $PORT is the broker's port, $NOBODY one where nobody listens, $WEB a web server's.

odradek --version

odradek

odradek topic list

odradek --no-such-option

odradek topics

odradek topics list

odradek topics create orders -p 3 --config retention.ms=3600000

odradek topics create orders

odradek topics create orders --if-not-exists

odradek topics create 'not a name'

odradek topics create wrong --config retention.mss=1

odradek topics create wrong -r 3

odradek topics list

odradek topics list -q

odradek topics list --json

odradek topics describe orders

odradek topics describe order

odradek topics describe orders --offset

odradek topics alter orders -p 2

odradek topics alter orders -p 4

odradek topics alter orders

odradek produce orders --value hello -k customer-7 -p 0

printf 'one\ntwo\nthree\n' | odradek produce orders -p 1

printf 'a:1\nb:2\n' | odradek produce orders -K : -p 2 -f '%p %o %k\n'

printf 'a:1\nno separator\n' | odradek produce orders -K : -p 2

printf '{"value":"x","partition":3,"headers":[["h","1"]],"timestamp":%s000}\n' $(date +%s) | odradek produce orders --json

printf '{"value":"x","timestamp":0}\n' | odradek produce orders --json

printf '{"val":"x"}\n' | odradek produce orders --json

odradek produce orders --value x -p 17

odradek produce orders --value x -p seven

odradek produce orders --value x -k 1 -k 2

odradek produce orders --value x -z lz5

for codec in gzip snappy lz4 zstd; do odradek produce orders --value $codec -z $codec -p 0; done

odradek consume orders --until now | sort

odradek consume orders --until now -p 0,1 | sort

odradek consume orders --tail 1 -p 0

odradek consume orders --tail 1 -f '%t %p %o %k=%s\n' -p 2

odradek consume orders -o 1:3 -p 0

odradek consume orders -o @-1h:end -p 1 -n 2

odradek consume orders -o :end -p 3 --json

odradek consume orders -o yesterday

odradek consume orders -o 99 -p 0 --until now

odradek consume orders --key customer-7 --until now

odradek consume orders --grep '^z' --until now

odradek consume orders -H h=1 --until now

odradek consume orders -K = -p 2 --until now

odradek consume orders -f '%q'

odradek consume orders -n 20 --from-beginning --timeout 1 | wc -l

odradek consume order

odradek consume '^ord' --until now -n 1 -p 1

odradek consume '^nothing' --until now

odradek consume orders -p 9

odradek consume orders --json -K :

odradek consume orders --until now | head -1 > /dev/null

timeout -s INT 3 odradek consume orders --tail 1 -p 0

odradek consume orders -p 1 -n 1 --until now --json | odradek produce copy --json

odradek consume orders --until now --json | odradek produce copy --json -p any && odradek topics describe copy --offsets

odradek consume orders -g billing -o earliest -n 3 | wc -l

odradek consume orders -g billing --until now | wc -l

odradek consume orders -g billing -p 0

odradek groups list

odradek groups describe billing

odradek groups describe biling

odradek groups describe billing --state

odradek groups reset-offsets billing --topic orders --to-earliest

odradek groups reset-offsets billing --topic orders:0 --by-duration 15m --execute

odradek groups reset-offsets billing --topic orders --by-duration soon

odradek groups reset-offsets billing --topic orders

odradek groups explain billing | sed -n 1,3p

odradek groups delete-offsets billing --topic orders:0,1

odradek groups delete billing nobody

odradek groups delete billing --if-exists

odradek configs describe --topic orders

odradek configs describe --topic orders --topic copy

odradek configs describe

odradek configs alter --topic orders --set retention.ms=x

odradek configs alter --topic orders --set retention.ms=7200000 --delete segment.bytes

odradek configs describe --topic orders --json

odradek configs describe --broker 7

odradek configs describe --topic order

odradek topics delete-records orders --before -1 -p 0,1 --dry-run

odradek topics delete-records orders --before end -p 0

odradek topics delete-records orders --before 1:2

odradek cluster describe

odradek elect-leaders

odradek reassign status

odradek reassign plan --drain 0

odradek wait broker

odradek wait topic orders nowhere --timeout 0.3

odradek wait lag nobody --timeout 0.3

odradek topics list -b localhost:$NOBODY

odradek topics list -b no-such-host.invalid:9092

odradek topics list -b localhost

odradek topics list -b localhost:$WEB

odradek consume orders -b localhost:$NOBODY

odradek topics list -X security.protocol=SSL

odradek topics list -X security.protocol=NONSENSE

odradek topics list -X request.timeout=5

printf 'security.protocol=PLAINTEXT\nbootstrap.servers=127.0.0.1:%s\n' $PORT > client.properties; env -u ODRADEK_BOOTSTRAP_SERVERS odradek topics list -q -F client.properties

printf '[contexts.here]\nproperties = "client.properties"\n' > odradek.toml; env -u ODRADEK_BOOTSTRAP_SERVERS odradek topics list -q --context here

odradek topics list --context there

odradek produce nosuch --help | tail -5

odradek topics delete copy

odradek topics delete copy

odradek log dump data

odradek serve --set no.such.setting=1 --data-dir other --listen 127.0.0.1:0 --set broker.id=x

odradek serve --data-dir other --listen 127.0.0.1:$PORT
