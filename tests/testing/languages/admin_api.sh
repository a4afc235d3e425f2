# Drives brokers by the admin API, with curl: `sh admin_api.sh URL`.
url="$1/admin/v1"

get() {
    curl -sS -w '\n%{http_code}\n' "$url/$1"
}

post() {
    curl -sS -w '\n%{http_code}\n' -H 'Content-Type: application/json' -d "$2" "$url/$1"
}

post topics '{"name": "t", "replication_factor": 2}'
post topics/t/records '{"records": [{"key": "k", "value": "é"}]}'
get topics/t/records
post brokers/1/kill '{"expire": true}'
post brokers/1/start ''
post brokers/1/stop '{"now": true}'
get groups/nosuch
